/** What an error of express or its parsers is called, none of whose words reach a client. */
import { expect, test } from "vitest";
import { problemDocument } from "../../../../src/service/api/problem.ts";

test.each([
  [404, "not_found", 404],
  [413, "too_large", 413],
  [418, "invalid_input", 400],
  [503, "protocol_violation", 500],
])("an error with the status %i, as express throws it, is %s", (thrown, code, status) => {
  const error = Object.assign(new RangeError("inner words"), { status: thrown });
  const document = problemDocument(error, undefined);
  expect(document).toMatchObject({ code, status });
  expect(document.detail).not.toContain("inner words");
});
