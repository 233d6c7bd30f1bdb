/** Guarantee: on a narrow terminal no line of prose or totals is wider than it; examples and tables of options may be. */
import stringWidth from "string-width";
import { beforeAll, expect, test } from "vitest";
import { createApiKeys } from "../../src/shared/redis/api-keys.ts";
import { runHere } from "../helpers/program.ts";
import { CLEAN } from "../helpers/program-on-stage.ts";
import { redisUrl } from "../helpers/redis.ts";
import { openStage, type Stage } from "../stage/stage.ts";

let stage: Stage;

beforeAll(async () => {
  stage = await openStage();
  for (const parentId of ["cli", "planner-7"])
    await stage.parent(parentId).spawn({ name: "👩‍🚀 Raumfahrerin mit langem Namen" });
});

async function linesAt(columns: number, args: readonly string[]): Promise<string[]> {
  let text = "";
  const stdout = {
    write: (more: string, done?: () => void) => {
      text += more;
      done?.();
    },
    on: () => {},
    ...{ isTTY: true, columns, rows: 50 },
  };
  const env = { ...CLEAN, REDIS_URL: redisUrl(), SUBAGENT_PREFIX: stage.prefix, NO_COLOR: "1" };
  const { code, stderr } = await runHere(args, { cwd: import.meta.dirname, env, stdout });
  expect({ code, stderr }).toEqual({ code: 0, stderr: [] });
  return text.trimEnd().split("\n");
}

test.each(["usage", "definitions", "ps", "show raumfahrerin_mit_langem_namen"])("%s", async (call) => {
  const lines = await linesAt(40, call.split(" "));
  expect(lines.length).toBeGreaterThan(1);
  expect(lines.filter((line) => stringWidth(line) > 39)).toEqual([]);
});

test.each(["--help", "keys --help", "watch --help"])("the paragraphs of %s", async (call) => {
  const [narrow, wide] = [await linesAt(60, call.split(" ")), await linesAt(200, call.split(" "))];
  const paragraphs = narrow.filter((line) => /^\S/.test(line));
  expect(paragraphs.filter((line) => stringWidth(line) > 59)).toEqual([]);
  const words = (lines: readonly string[]) =>
    lines
      .join(" ")
      .split(/\s+/)
      .filter((word) => /^\w+$/.test(word));
  expect(words(paragraphs)).toEqual(words(wide.filter((line) => /^\S/.test(line))));
});

test("a table of keys tells a revoked key from one that is valid, and names each", async () => {
  const { redis, keys } = stage;
  const { key_id } = await createApiKeys(redis, keys).create({
    tenant: "default",
    name: "billing service of old",
    scope: "read",
  });
  await createApiKeys(redis, keys).revoke(key_id);
  const lines = await linesAt(40, ["keys", "list"]);
  expect(lines[0]).toMatch(/ revoked$/);
  expect(lines[1]).toMatch(new RegExp(`^${key_id}  billing… .* \\d{4}-\\d\\d-\\d\\d`));
  const wider = await linesAt(80, ["keys", "list"]);
  expect(wider[1]).toMatch(/^\S+ {2}billing service of .* {2}default {2}read {3}- /);
});
