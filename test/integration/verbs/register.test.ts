/** Guarantee: a profile is registered once for each content, with the time at which that was. */
import { expect, test } from "vitest";
import { loadScripts } from "../../../src/shared/redis/scripts.ts";
import { verbRig } from "./rig.ts";

test("another content has its own time and the next version, the same content those that it had", async () => {
  const rig = verbRig();
  const scripts = loadScripts(rig.redis, rig.keys, rig.store.timing);
  const agent = rig.address();
  const register = (content: string) => scripts.run("register", agent, { content });
  const first = await register("{}");
  await rig.redisReaches(first.registered_at + 2);
  const second = await register('{"limits":{}}');
  expect(second).toMatchObject({ status: "registered", profile_version: first.profile_version + 1 });
  expect(second.registered_at).toBeGreaterThan(first.registered_at);
  expect(await register('{"limits":{}}')).toEqual({ ...second, status: "same" });
});
