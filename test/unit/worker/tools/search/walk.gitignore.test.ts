import { beforeAll, expect, it } from "vitest";
import { until } from "../../../../helpers/until.ts";
import { openScene, type Scene } from "../scene.ts";

let scene: Scene;
const files = {
  ".gitignore": "dist/\n*.log\n!kept.log\n/only-here.txt\n",
  "dist/a.ts": "TODO",
  "src/a.ts": "TODO",
  "src/trace.log": "TODO",
  "src/kept.log": "TODO",
  "src/only-here.txt": "TODO",
  "only-here.txt": "TODO",
  "sub/.gitignore": "*.ts\n!*.log\n/only-here.md\n",
  "sub/b.ts": "TODO",
  "sub/c.log": "TODO",
  "sub/only-here.md": "TODO",
  "sub/deep/only-here.md": "TODO",
};
beforeAll(async () => {
  scene = await openScene();
  for (const [path, text] of Object.entries(files)) await scene.put(path, text);
});
const found = async (tool: string, input: object) =>
  (await scene.call(tool, input)).content
    .split("\n")
    .map((line) => line.split(":")[0])
    .sort();

it("searches leave out what a .gitignore names, the innermost rule deciding", async () => {
  const kept = ["src/a.ts", "src/kept.log", "src/only-here.txt", "sub/c.log", "sub/deep/only-here.md"];
  expect(await found("grep", { pattern: "TODO" })).toEqual(kept);
  expect(await found("glob", { pattern: "**/*.{ts,log,txt,md}" })).toEqual(kept);
});

it("what is ignored is still found by whoever names its directory, and read by its name", async () => {
  expect(await found("glob", { pattern: "dist/*.ts" })).toEqual(["dist/a.ts"]);
  expect(await found("grep", { pattern: "TODO", path: "dist" })).toEqual(["dist/a.ts"]);
  expect((await scene.call("read_file", { file_path: "src/trace.log" })).content).toBe("TODO");
});

it("rules that take for ever are tried off the event loop, and a stopped search ends", async () => {
  const slow = await openScene();
  await slow.put(".gitignore", `${"**/a/".repeat(28)}b\n`);
  await slow.put(`${"a/".repeat(38)}f`, "TODO");
  for (const [tool, input] of [
    ["grep", { pattern: "TODO" }],
    ["glob", { pattern: "**/*" }],
  ] as const) {
    const stop = new AbortController();
    let ticks = 0;
    const ticker = setInterval(() => ticks++, 20);
    const searching = slow.call(tool, input, stop.signal);
    await until(() => ticks >= 20);
    stop.abort();
    clearInterval(ticker);
    expect(await searching).toMatchObject({ isError: true, content: expect.stringMatching(/^Cancelled/) });
  }
});

it("rules that cannot be compiled hide nothing, and end no search", async () => {
  const odd = await openScene();
  await odd.put(".gitignore", `*.log\na${" ".repeat(60_000)}b\n`);
  await odd.put("a.log", "TODO");
  expect((await odd.call("grep", { pattern: "TODO" })).content).toBe("a.log:1:TODO");
  expect((await odd.call("glob", { pattern: "*.log" })).content).toBe("a.log");
});
