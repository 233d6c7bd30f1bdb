/** Guarantee: the header of a span is one that W3C lets others read. */
import { expect, test } from "vitest";
import { Traceparent, traceparentOf } from "../../../../src/shared/protocol/ids.ts";

test.each([
  [0, "00"],
  [1, "01"],
  [0x1ff, "ff"],
])("the flags %d of a span are the two digits %s", (traceFlags, digits) => {
  const header = traceparentOf({ traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags });
  expect(header).toBe(`00-${"a".repeat(32)}-${"b".repeat(16)}-${digits}`);
  expect(Traceparent.safeParse(header).success).toBe(true);
});
