/** Names that only some file systems take for those of refused files. */
import { expect, it } from "vitest";
import { isExecuted, isSecret } from "../../../../../src/worker/tools/files/policy.ts";

it.for([".\u017f\u017fh/known_hosts", ".SSH/known_hosts", "\u212aeys/id_r\u017fa", ".s\u200dsh/known_hosts"])(
  "%j holds secrets where case is folded, or characters that nobody sees are ignored",
  (path) => expect(isSecret(path.split("/"))).toBe(true),
);

it("so does a directory that programs run", () => {
  expect(isExecuted([".v\u017fcode", "tasks.json"])).toBe(true);
  expect(isExecuted([".gi\u200ct", "hooks", "pre-commit"])).toBe(true);
});

it("other letters make another name", () => {
  expect(isSecret([".\u0455\u0455h", "known_hosts"])).toBe(false);
  expect(isExecuted([".g\u0456t", "hooks"])).toBe(false);
});
