import { symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { openScene, type Scene } from "../scene.ts";

let scene: Scene;
const files = [
  "a.ts",
  "src/b.ts",
  "src/deep/c.ts",
  "src/deep/d.tsx",
  ".env",
  ".github/ci.yml",
  "src/{odd}.ts",
  "src/e.js",
];
beforeAll(async () => {
  scene = await openScene();
  let age = 0;
  for (const file of [...files, ".git/config", "node_modules/m/index.ts", "src/node_modules/n.ts"]) {
    const path = await scene.put(file, "");
    await utimes(path, 1_000_000 + age, 1_000_000 + age++);
  }
  await symlink("src", join(scene.home, "linked"));
  await writeFile(join(scene.readOnly, "r.ts"), "");
});
const glob = async (pattern: string, path?: string) => (await scene.call("glob", { pattern, path })).content;

describe("glob", () => {
  it.each([
    ["*.ts", ["a.ts"]],
    ["**/*.ts", ["src/{odd}.ts", "src/deep/c.ts", "src/b.ts", "a.ts"]],
    ["./src/*.ts", ["src/{odd}.ts", "src/b.ts"]],
    ["src/**/*.{ts,tsx}", ["src/{odd}.ts", "src/deep/d.tsx", "src/deep/c.ts", "src/b.ts"]],
    ["src/b.ts", ["src/b.ts"]],
    ["src/deep/*", ["src/deep/d.tsx", "src/deep/c.ts"]],
    ["*/*/c.ts", ["src/deep/c.ts"]],
    ["**/.*", [".env"]],
    ["*/*.yml", [".github/ci.yml"]],
    ["[ab].ts", ["a.ts"]],
    ["linked/*.ts", ["src/{odd}.ts", "src/b.ts"]],
    ["src/missing/**", ["no matches"]],
    ["a.ts/**", ["no matches"]],
    ["*.py", ["no matches"]],
    ["node_modules/**", ["node_modules/m/index.ts"]],
  ])("finds with %s the newest first", async (pattern, expected) => {
    expect((await glob(pattern)).split("\n")).toEqual(expected);
  });

  it("searches a directory or an open root and answers paths that read_file takes", async () => {
    expect(await glob("*.ts", "src")).toBe("src/{odd}.ts\nsrc/b.ts");
    expect(await glob("*.ts", scene.readOnly)).toBe(join(scene.readOnly, "r.ts"));
    expect(await glob(`${scene.readOnly}/**`)).toBe(join(scene.readOnly, "r.ts"));
  });

  it.each([
    ["../**", /"\.\." is not permitted/],
    ["{a,..}/b", /"\.\." is not permitted/],
    ["/etc/*", /outside/],
    ["/**", /outside/],
    ["src/", /names a directory/],
    ["", /field `pattern`/],
    ["a\0b", /NUL/],
    ["{{{{a,b}", /malformed/],
    ["x".repeat(1_001), /field `pattern`/],
  ])("answers %s plainly", async (pattern, message) => {
    const outcome = await scene.call("glob", { pattern });
    expect(outcome.isError).toBe(true);
    expect(outcome.content).toMatch(message);
  });

  it("says so when the directory given as path is missing or a file", async () => {
    expect(await scene.call("glob", { pattern: "*", path: "none" })).toMatchObject({ isError: true });
    expect(await scene.call("glob", { pattern: "*", path: "a.ts" })).toMatchObject({ isError: true });
  });

  it("shows at most 200 paths and says how many there are", async () => {
    const many = await openScene();
    for (let n = 0; n < 250; n++) await many.put(`f${n}`, "");
    const lines = (await many.call("glob", { pattern: "*" })).content.split("\n");
    expect(lines).toHaveLength(201);
    expect(lines.at(-1)).toBe("[200 of 250 matches, newest first]");
  });

  it("keeps the event loop free while a pattern backtracks, and stops it", async () => {
    const slow = await openScene();
    await slow.put("a".repeat(250), "");
    let ticks = 0;
    const ticker = setInterval(() => ticks++, 20);
    const stop = new AbortController();
    const searching = slow.call("glob", { pattern: `${"*a".repeat(40)}b` }, stop.signal);
    const untilBusy = new Promise<void>((resolve) => {
      const look = setInterval(() => {
        if (ticks < 20) return;
        clearInterval(look);
        resolve();
      }, 20);
    });
    await untilBusy;
    stop.abort();
    expect(await searching).toMatchObject({ isError: true });
    clearInterval(ticker);
  });
});
