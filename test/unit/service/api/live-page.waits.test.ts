/** The sentence of the live page about what every run waits for. */
import { expect, test } from "vitest";
import { waitOfAll } from "../../../../web/view.js";

test("a pause is told with its beginning and its reason, a missing worker with what ends the wait", () => {
  const since = "2026-11-30T16:31:38.961Z";
  expect(waitOfAll({ for: "resume", since, reason: "budget" })).toBe(
    "All runs wait until an operator resumes them: paused since 2026-11-30 16:31 UTC (budget).",
  );
  expect(waitOfAll({ for: "resume", since })).toMatch(/UTC\.$/);
  expect(waitOfAll({ for: "worker" })).toBe("No worker is live: what is queued waits until one joins.");
});
