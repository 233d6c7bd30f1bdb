import { link, open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { CUT_MARKER } from "../../../../../src/worker/tools/result-text.ts";
import { openScene, type Scene } from "../scene.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
});
const read = (file_path: string, view_range?: number[]) => scene.call("read_file", { file_path, view_range });

describe("read_file", () => {
  it("gives a text as it stands, line ends and byte order mark included", async () => {
    const text = "\ufeffone\r\ntwo\nthree";
    await scene.put("a.txt", text);
    expect(await read("a.txt")).toMatchObject({ content: text, isError: false });
    expect((await read("./sub/../a.txt")).content).toBe(text);
  });

  it("gives a range of lines, to the end with -1", async () => {
    await scene.put("n.txt", "1\n2\n3\n4\n5\n");
    expect((await read("n.txt", [2, 3])).content).toBe("2\n3\n");
    expect((await read("n.txt", [4, -1])).content).toBe("4\n5\n");
    expect((await read("n.txt", [5, 99])).content).toBe("5\n");
  });

  it("says how many lines there are when the range begins after the last", async () => {
    await scene.put("n.txt", "1\n2\n3\n4\n5\n");
    expect(await read("n.txt", [6, 7])).toMatchObject({
      content: '"n.txt" has only 5 lines.',
      isError: true,
    });
    await scene.put("open-end.txt", "1\n2");
    expect((await read("open-end.txt", [3, 3])).content).toBe('"open-end.txt" has only 2 lines.');
  });

  it.each([[[0, 1]], [[3, 2]], [[1]], [[1, 2, 3]], [[1.5, 2]], [[1, -2]]])(
    "refuses the range %j",
    async (range) => {
      await scene.put("n.txt", "1\n");
      expect(await read("n.txt", range)).toMatchObject({ isError: true });
    },
  );

  it("says what is missing, empty or a directory", async () => {
    expect((await read("none.txt")).content).toBe('"none.txt" does not exist.');
    expect((await read("none/none.txt")).content).toBe('"none/none.txt" does not exist.');
    await scene.put("empty", "");
    expect((await read("empty")).content).toBe("(empty file)");
    await scene.put("d/x", "");
    expect((await read("d")).content).toBe('"d" is a directory, not a file.');
    expect((await read("empty/x")).content).toMatch(/not a directory/);
  });

  it("makes bytes that are not UTF-8 readable", async () => {
    await scene.put("latin1", Buffer.from([0x63, 0xe9, 0x00, 0x0a]));
    expect((await read("latin1")).content).toBe("c\ufffd\u2400\n");
  });

  it("refuses a big file with its size, and reads a range of it", async () => {
    await scene.put("big.txt", "line of text\n".repeat(40_000));
    expect((await read("big.txt")).content).toMatch(/520000 bytes.*view_range/);
    expect((await read("big.txt", [39_999, -1])).content).toBe("line of text\nline of text\n");
    expect((await read("big.txt", [1, -1])).content).toContain(CUT_MARKER);
  });

  it("reads neither a 10 GB file nor a line without end into memory", async () => {
    const path = await scene.put("sparse", "first\n");
    const file = await open(path, "r+");
    await file.truncate(10 * 1024 ** 3);
    await file.close();
    const before = process.memoryUsage().rss;
    expect(await read("sparse")).toMatchObject({ isError: true });
    expect((await read("sparse", [1, 1])).content).toBe("first\n");
    expect((await read("sparse", [2, 2])).content).toContain(CUT_MARKER);
    expect((await read("sparse", [3, 3])).content).toMatch(/beyond its first 64 MB/);
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024);
  });

  it("counts sixty million empty lines without spending seconds on them", async () => {
    await scene.put("empty-lines", Buffer.alloc(64 * 1024 * 1024, "\n"));
    const before = process.cpuUsage();
    expect((await read("empty-lines", [60_000_000, 60_000_001])).content).toBe("(no output)");
    expect(process.cpuUsage(before).user).toBeLessThan(1_500_000);
  });

  it("refuses a hard link in the workspace, and reads one in an open root", async () => {
    const target = join(scene.readOnly, "linked.txt");
    await writeFile(target, "shared");
    await link(target, join(scene.home, "hard.txt"));
    expect((await read("hard.txt")).content).toMatch(/second hard link/);
    expect((await read(target)).content).toBe("shared");
  });
});
