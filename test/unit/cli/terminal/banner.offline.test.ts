import { expect, test } from "vitest";
import { areOffline } from "../../../../src/cli/terminal/banner.ts";
import type { WorkerAnnouncement } from "../../../../src/shared/protocol/worker.ts";

test("workers are offline if each of them is", () => {
  const worker = (model?: string) => ({ id: "w", ...(model && { model }) }) as WorkerAnnouncement;
  expect(areOffline([worker("offline-1"), worker("offline-1")])).toBe(true);
  expect(areOffline([worker("offline-1"), worker("claude-opus-5-5")])).toBe(false);
  expect(areOffline([worker("offline-1"), worker()])).toBe(false);
});
