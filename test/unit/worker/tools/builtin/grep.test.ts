import { linkSync } from "node:fs";
import { chmod, open, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { grepTool } from "../../../../../src/worker/tools/builtin/grep.ts";
import { fitResult } from "../../../../../src/worker/tools/result-text.ts";
import {
  createMatcherProcesses,
  type MatcherProcesses,
} from "../../../../../src/worker/tools/search/matcher.ts";
import { createSearchQueue } from "../../../../../src/worker/tools/search/search.ts";
import { openScene, type Scene } from "../scene.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
  await scene.put("a.ts", "// TODO one\nconst a = 1;\r\n// todo two\n");
  await scene.put("src/b.ts", "x\n\n// TODO three");
  await scene.put("src/c.md", "TODO: é four\n");
  await scene.put("bin", Buffer.from("TODO\0TODO\n"));
  await scene.put("node_modules/m.ts", "TODO\n");
  await scene.put(".git/config", "TODO\n");
  await symlink("src", join(scene.home, "linked"));
  await writeFile(join(scene.readOnly, "r.ts"), "TODO root\n");
});
const grep = async (pattern: string, more: { path?: string; glob?: string } = {}) =>
  (await scene.call("grep", { pattern, ...more })).content;

describe("grep", () => {
  it("answers path:line:text in the order of names", async () => {
    expect(await grep("TODO")).toBe("a.ts:1:// TODO one\nsrc/b.ts:3:// TODO three\nsrc/c.md:1:TODO: é four");
    expect(await grep("(?i)todo (one|two)$")).toBe("a.ts:1:// TODO one\na.ts:3:// todo two");
    expect(await grep("^const.*;$")).toBe("a.ts:2:const a = 1;");
    expect(await grep("\\p{Lu}{4}: \\p{Ll}")).toBe("src/c.md:1:TODO: é four");
    expect(await grep("nothing like this")).toBe("no matches");
  });

  it("searches a file, a directory, a link inside or an open root", async () => {
    expect(await grep("TODO", { path: "src/b.ts" })).toBe("src/b.ts:3:// TODO three");
    expect(await grep("three", { path: "src" })).toBe("src/b.ts:3:// TODO three");
    expect(await grep("three", { path: "linked" })).toBe("src/b.ts:3:// TODO three");
    expect(await grep("TODO", { path: scene.readOnly })).toBe(`${scene.readOnly}/r.ts:1:TODO root`);
    expect(await grep("TODO", { path: "node_modules" })).toBe("node_modules/m.ts:1:TODO");
  });

  it("narrows by name anywhere, or by path with a slash", async () => {
    expect(await grep("TODO", { glob: "*.md" })).toBe("src/c.md:1:TODO: é four");
    expect(await grep("TODO", { glob: "src/*.ts" })).toBe("src/b.ts:3:// TODO three");
    expect(await grep("TODO", { glob: "!*.md", path: "src" })).toBe("src/b.ts:3:// TODO three");
    expect(await grep("TODO", { glob: "!(b|x).*", path: "src" })).toBe("src/c.md:1:TODO: é four");
    expect(await grep("TODO", { glob: "*.{ts,md}", path: "src" })).toMatch(/^src\/b\.ts.*\nsrc\/c\.md.*$/);
  });

  it("says, as glob does, that it stopped after 50,000 entries: what it did not see may match", async () => {
    const first = await scene.put("many/0", "");
    for (let n = 1; n <= 50_000; n++) linkSync(first, join(scene.home, "many", `${n}`));
    expect(await grep("TODO", { path: "many", glob: "*.ts" })).toMatch(
      /\[stopped after 50,000 entries;[^\n]*\]$/,
    );
    const { content } = await scene.call("glob", { pattern: "*.ts", path: "many" });
    expect(content).toMatch(/\[stopped after 50,000 entries;[^\n]*\]$/);
    await rm(join(scene.home, "many"), { recursive: true });
  });

  it("knows a character by its number or its property", async () => {
    await scene.put("faces.txt", "a\n😀\n");
    for (const pattern of ["\\u{1F600}", "\\p{Emoji_Presentation}"]) {
      expect(await grep(pattern, { path: "faces.txt" }), pattern).toBe("faces.txt:2:😀");
    }
  });

  it("says plainly what it cannot search", async () => {
    expect(await grep("(")).toMatch(/not a valid JavaScript regular expression/);
    expect(await grep("TODO", { path: "bin" })).toMatch(/binary/);
    expect(await grep("TODO", { path: "none" })).toBe('"none" does not exist.');
    expect(await grep("TODO", { glob: "{{{{a,b}" })).toMatch(/malformed/);
    expect(await grep("")).toMatch(/field `pattern`/);
  });

  it("passes over files it may not read", async () => {
    await scene.put("locked/x.txt", "LOCKED");
    await chmod(join(scene.home, "locked/x.txt"), 0o000);
    await scene.put("locked/y.txt", "LOCKED");
    expect(await grep("LOCKED", { path: "locked" })).toContain("locked/y.txt:1:LOCKED");
  });

  it("stops at 48,000 characters of matches and says so within what a result may have", async () => {
    const tool = scene.tools.find(({ name }) => name === "grep");
    await scene.put("many/lines", "match this line of text\n".repeat(20_000));
    const text = String(await tool?.run({ pattern: "match", path: "many" }, scene.context()));
    expect(text.length).toBeGreaterThan(47_900);
    expect(fitResult(text)).toBe(text);
    expect(text).toMatch(/\[stopped after 48,000 characters of matches;[^\n]*\]$/);
  });

  it("counts lines across chunks, and cuts very long ones", async () => {
    await scene.put("long/l", `${"é".repeat(400_000)}\nNEEDLE\n${"n".repeat(300_000)}NEEDLE\nNEEDLE`);
    const lines = (await grep("NEEDLE|é", { path: "long" })).split("\n");
    expect(lines.map((line) => line.slice(0, 10))).toEqual(["long/l:1:é", "long/l:2:N", "long/l:4:N"]);
    expect(lines[0]?.length).toBeLessThan(2_100);
  });

  it("reads a 10 GB file in bounded memory and says how far", async () => {
    const path = await scene.put("giant/log", "");
    const file = await open(path, "r+");
    for (let at = 0; at < 20; at++) await file.write("x".repeat(1024 * 1024), at * 1024 * 1024);
    await file.truncate(10 * 1024 ** 3);
    await file.close();
    const before = process.memoryUsage().arrayBuffers;
    let most = before;
    const looking = setInterval(() => {
      most = Math.max(most, process.memoryUsage().arrayBuffers);
    });
    const text = await grep("y", { path: "giant" }).finally(() => clearInterval(looking));
    expect(text).toBe("no matches\n[only the first 16 MB of giant/log were searched]");
    expect(most - before).toBeLessThan(8 * 1024 * 1024);
  });

  it("reports what it had found when its time is over", async () => {
    await scene.put("bomb/1", "aaaa\n");
    const endless = `${"a".repeat(50)}!`;
    await scene.put("bomb/2", `${endless}\n`);
    let expire = (): void => {};
    const clock = {
      ...systemClock,
      timeout: (_ms: number, callback: () => void) => {
        expire = callback;
        return { cancel: () => {} };
      },
    };
    const real = createMatcherProcesses();
    const processes: MatcherProcesses = {
      open(signal) {
        const matcher = real.open(signal);
        return {
          ...matcher,
          lines(expression, lines) {
            const answer = matcher.lines(expression, lines);
            if (lines.includes(endless)) expire();
            return answer;
          },
        };
      },
    };
    const tool = grepTool({ processes, queue: createSearchQueue(), clock });
    const text = await tool.run({ pattern: "^(a+)+$", path: "bomb" }, scene.context());
    expect(text).toBe("bomb/1:1:aaaa\n[stopped after 10 s; use a simpler pattern or a narrower path]");
  });

  it("finds in linear time what a backtracking engine never would, and gives up where that cannot be", async () => {
    await scene.put("slow/1", "aaaa\n");
    await scene.put("slow/2", `${"a".repeat(50)}!\naaa\n`);
    // A busy machine may need longer than a search may take.
    const clock = { ...systemClock, timeout: () => ({ cancel: () => {} }) };
    const tool = grepTool({ processes: createMatcherProcesses(), queue: createSearchQueue(), clock });
    const search = (pattern: string) => tool.run({ pattern, path: "slow" }, scene.context());
    expect(await search("^(a+)+$")).toBe("slow/1:1:aaaa\nslow/2:2:aaa");
    expect(await search("^(a+)+\\1?$")).toBe(
      "slow/1:1:aaaa\n[stopped: the pattern takes too long on this text; use a simpler one]",
    );
  });

  it("survives patterns that are too big to compile", async () => {
    expect(await grep("((a{1000}){1000}){1000}")).toMatch(/no matches|simpler/);
    expect(await grep("(".repeat(499) + ")".repeat(499), { path: "src/c.md" })).toMatch(
      /^src\/c\.md:1|simpler/,
    );
    expect(await grep("TODO", { path: "src/c.md" })).toBe("src/c.md:1:TODO: é four");
  });
});
