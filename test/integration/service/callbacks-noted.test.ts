/** A message to a run of a thread is noted for its callback before it is sent: a process may die in between. */
import { expect, test } from "vitest";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { agentOf } from "../../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { masterUrls } from "../../helpers/redis.ts";
import { openStage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "planner-7" };

test("a message to a thread whose run is not over is noted before it is in the inbox", async () => {
  const stage = await openStage();
  const threadId = newThreadId();
  const thread = openThread(stage.client(), PARENT.tenant, PARENT.parentId, threadId);
  await thread.begin({ assistantId: "researcher", text: "one", callbackThreadId: "main" });
  const { inbox } = stage.keys.agent(agentOf(PARENT, threadId));
  const seen: { what: string; seconds: number }[] = [];
  const monitors = await Promise.all(
    masterUrls(stage.redis).map((url) =>
      openMonitor(url, (seconds, [name = "", key]) => {
        if (key === stage.keys.callbacks && /^zadd$/i.test(name))
          seen.push({ what: "noted", seconds: Number(seconds) });
        if (key === inbox && /^rpush$/i.test(name)) seen.push({ what: "sent", seconds: Number(seconds) });
      }),
    ),
  );
  for (const monitor of monitors) closeAtEnd(monitor.stop);
  await thread.begin({ assistantId: "researcher", text: "two" });
  for (const monitor of monitors) await monitor.caughtUp();
  const order = seen.sort((a, b) => a.seconds - b.seconds).map(({ what }) => what);
  expect(order).toEqual(["noted", "sent", "noted"]);
});
