/** Guarantee: a search that leaves directories out for their depth says so; a `.gitignore` that is too long leaves nothing out. */
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

const deep = (levels: number) => `${"a/".repeat(levels)}f`;

it("what is 40 levels deep is found, and what is deeper is not, with a note", async () => {
  const { call, put } = await openScene();
  const search = async (tool: string, pattern: string) => (await call(tool, { pattern })).content;
  await put(deep(39), "TODO");
  expect(await search("grep", "TODO")).toBe(`${deep(39)}:1:TODO`);
  expect(await search("glob", "**/f")).toBe(deep(39));
  await put(deep(40), "TODO");
  const note = "[directories more than 40 levels deep were not searched; give one of them as path]";
  expect(await search("grep", "TODO")).toBe(`${deep(39)}:1:TODO\n${note}`);
  expect(await search("glob", "**/f")).toBe(`${deep(39)}\n${note}`);
  expect((await call("grep", { pattern: "TODO", path: "a/a" })).content).toContain(`${deep(40)}:1:TODO`);
});

it("a search that reaches no deeper by its pattern has no note", async () => {
  const { call, put } = await openScene();
  await put(deep(50), "TODO");
  await put("a/plain", "TODO");
  expect((await call("glob", { pattern: "*/*" })).content).toBe("a/plain");
});

it("a .gitignore of more than 64 KB hides nothing: no part of a rule does", async () => {
  const { call, put } = await openScene();
  const found = async () => (await call("grep", { pattern: "TODO" })).content;
  for (const name of ["kept", "kept-", "other"]) await put(name, "TODO");
  const others = `${"x".repeat(63)}\n`.repeat(1_024).slice(0, -5);
  await put(".gitignore", `${others}\nkept`);
  expect(await found()).toBe("kept-:1:TODO\nother:1:TODO");
  // Its first 64 KB end as the rule above, and one byte more names the other file.
  await put(".gitignore", `${others}\nkept-longer\n`);
  expect(await found()).toBe("kept:1:TODO\nkept-:1:TODO\nother:1:TODO");
});
