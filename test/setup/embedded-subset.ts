/**
 * The test files that also run on the embedded server, which is used on a machine without Redis: every guard of the verbs,
 * some of the parent's calls that use them, and an origin with a real worker. A file belongs here if it uses `redisUrl()`
 * and starts no server of its own. The files run one after the other, because `doctor` scans all keys, and the embedded
 * server's SCAN misses keys while others are deleted.
 */
export const EMBEDDED_SUBSET: readonly string[] = [
  "test/integration/doctor.test.ts",
  "test/integration/origins/a.test.ts",
  "test/integration/producer/managing.test.ts",
  "test/integration/producer/replies.test.ts",
  "test/integration/producer/task.test.ts",
  "test/integration/verbs/ack.test.ts",
  "test/integration/verbs/claim.test.ts",
  "test/integration/verbs/deadline-set.test.ts",
  "test/integration/verbs/log-bytes.test.ts",
  "test/integration/verbs/look.test.ts",
  "test/integration/verbs/provider-limiter.test.ts",
  "test/integration/verbs/repair.test.ts",
  "test/integration/verbs/questions.test.ts",
  "test/integration/verbs/resent.test.ts",
  "test/integration/verbs/run.test.ts",
  "test/integration/verbs/send.test.ts",
  "test/integration/verbs/settle.test.ts",
  "test/integration/verbs/spawn.test.ts",
  "test/integration/verbs/usage.test.ts",
  "test/integration/verbs/wake-queue.test.ts",
];

/** Files that only `npm run test:embedded` runs there: their calls and workers use the same Redis commands as those above. */
export const EMBEDDED_LONG: readonly string[] = [
  "test/integration/producer/questions.test.ts",
  "test/integration/producer/task-all.test.ts",
  "test/integration/producer/waiting.test.ts",
  "test/integration/origins/b.test.ts",
  "test/integration/origins/c.test.ts",
];
