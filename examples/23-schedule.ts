/** Scheduled tasks. While no worker lives no task is lost and none pile up: missed times run once. */
import { createParent } from "subagent-queue";
import { createIntake } from "subagent-queue/api";
import { setUp } from "./setup.ts";

const { client, parentId, redisUrl, stop } = await setUp({
  offline: { turns: [{ content: [{ type: "text", text: "All quiet." }] }] },
});
const parent = createParent({ client, parentId });

// Every weekday at seven in Berlin, and every second. An `at` would run once.
await parent.schedule({
  schedule_id: "morning",
  cron: "0 7 * * 1-5",
  tz: "Europe/Berlin",
  name: "morning_report",
  prompt: "What changed since yesterday?",
});
await parent.schedule({
  schedule_id: "watch",
  every_ms: 1_000,
  name: "watch",
  prompt: "Is anything on fire?",
});
await parent.pauseSchedule("morning");
for (const { schedule_id, paused } of await parent.schedules()) console.log({ schedule_id, paused });

// `subagent-queue worker` runs such an intake, too: it starts the tasks that are due.
const intake = createIntake({ redisUrl, prefix: "examples", client });
await intake.start();
let rounds = 0;
for await (const reply of parent.replies()) {
  if (reply.kind === "reply") console.log(`${reply.name}: ${reply.summary}`);
  await reply.ack();
  if (++rounds === 2) break;
}

await parent.unschedule("watch");
await parent.unschedule("morning");
console.log(await parent.schedules());
await intake.stop();
await parent.stop();
await stop();
