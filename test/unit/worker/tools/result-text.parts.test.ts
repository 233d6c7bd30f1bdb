import { expect, it } from "vitest";
import { CUT_MARKER, textOfResult } from "../../../../src/worker/tools/result-text.ts";

it("bytes are cut between two characters, not called no text", () => {
  const text = textOfResult(Buffer.from(`x${"é".repeat(150_000)}`));
  expect(text).toBe(`x${"é".repeat(99_999)}${CUT_MARKER}`);
});

it("a value without a JSON form is shown as it stands: no form of its own, and no getter is asked", () => {
  const value: Record<string, unknown> = {
    get price() {
      return 1;
    },
    [Symbol.for("nodejs.util.inspect.custom")]: () => "a form of its own",
  };
  value.self = value;
  const text = textOfResult(value);
  expect(text).toContain("price: [Getter],");
  expect(text).toContain("self: [Circular");
});
