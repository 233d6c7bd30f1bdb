import { expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { started, testClient, testParent } from "../../helpers/parents.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { redisUrl } from "../../helpers/redis.ts";

test("null in a profile, which programs in other languages send, is a field that is left out", async () => {
  const parent = testParent(testClient());
  const profile = { tools: null, model: null, limits: { max_turns: 5 } } as object;
  expect(await parent.register(profile)).toMatchObject({ version: 1, profile: { limits: { max_turns: 5 } } });
  expect(await parent.profile()).toMatchObject({ profile: { limits: { max_turns: 5 } } });
  expect((await parent.profile()).profile).not.toHaveProperty("tools");
});

test("a registration whose answer was lost says that it changed the profile", async () => {
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  const client = await started(testClient({ redisUrl: `redis://127.0.0.1:${proxy.port}` }));
  closeAtEnd(() => client.stop());
  const parent = testParent(client);
  await parent.profile();
  const lost = proxy.swallowNthReply(1);
  const receipt = await parent.register({ limits: { max_turns: 5 } });
  await lost;
  expect(receipt).toMatchObject({ version: 1, changed: true });
});
