/** Which refusals of a spawn or send a later try may help, because room becomes free. */
import { expect, test } from "vitest";
import { hasNoRoom } from "../../../../src/service/intake/stream.ts";
import { SubagentError } from "../../../../src/shared/errors.ts";

test.each([
  ["quota_exceeded", true],
  ["inbox_full", true],
  ["redis_unavailable", false],
  ["invalid_input", false],
] as const)("%s: %j", (code, isRoomLacking) => {
  expect(hasNoRoom(new SubagentError(code, "No."))).toBe(isRoomLacking);
});
