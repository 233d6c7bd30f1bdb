/** Guarantee: what the refusal of wrong prices asks for is taken. */
import { expect, test } from "vitest";
import { messageOf } from "../../../src/shared/errors.ts";
import { checkWorkerOptions, type WorkerOptions } from "../../../src/worker/worker-options.ts";

const model = { call: async () => ({ status: "aborted" as const }), stop: async () => {} };
const good = { redisUrl: "redis://127.0.0.1:6379", model, workspaceRoot: "/srv/workspaces" };
const check = (price: object) =>
  checkWorkerOptions({ ...good, prices: { "my-model": price } } as unknown as WorkerOptions);

function refusalOf(price: object): string {
  try {
    check(price);
    return "";
  } catch (error) {
    return messageOf(error);
  }
}

test("a price with the parts that the refusal names is taken, and one without any of them is refused", () => {
  const names = /\{ ([\w, ]+) \}/.exec(refusalOf({}))?.[1]?.split(", ") ?? [];
  const price = Object.fromEntries(names.map((name) => [name, 1]));
  expect(() => check(price)).not.toThrow();
  for (const name of names) expect(refusalOf({ ...price, [name]: undefined })).toContain(name);
});
