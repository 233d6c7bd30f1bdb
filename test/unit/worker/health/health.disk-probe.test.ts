import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { diskProbe } from "../../../../src/worker/health/health.ts";

test("a disk with room is no reason, however often it is asked about", async () => {
  const probe = diskProbe(tmpdir());
  expect(await Promise.all([probe(), probe()])).toEqual([undefined, undefined]);
  expect(await probe()).toBeUndefined();
});
