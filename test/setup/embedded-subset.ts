/**
 * The test files that run once more on the embedded server, the Redis of a machine that has none: every guard of the
 * verbs, and the parent's calls on top of them. A file belongs here when it uses `redisUrl()` and starts no server of its own.
 */
export const EMBEDDED_SUBSET: readonly string[] = [
  "test/integration/producer/managing.test.ts",
  "test/integration/producer/replies.test.ts",
  "test/integration/producer/task.test.ts",
  "test/integration/verbs/ack.test.ts",
  "test/integration/verbs/claim.test.ts",
  "test/integration/verbs/deadline-set.test.ts",
  "test/integration/verbs/look.test.ts",
  "test/integration/verbs/resent.test.ts",
  "test/integration/verbs/run.test.ts",
  "test/integration/verbs/send.test.ts",
  "test/integration/verbs/settle.test.ts",
  "test/integration/verbs/spawn.test.ts",
  "test/integration/verbs/wake-queue.test.ts",
];
