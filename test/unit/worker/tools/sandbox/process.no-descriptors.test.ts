/** Guarantee: where a process has no file descriptor left, a command, an MCP server and a search fail alone, and work again later. */
import { expect, it } from "vitest";
import { spawnNode } from "../../../../helpers/processes.ts";

it("a command, a server or a search that finds no file descriptor does not end its worker", async () => {
  const child = await spawnNode("test/helpers/fixtures/without-descriptors.ts");
  expect(await child.closed, child.stderr.join("\n")).toEqual({ code: 0, signal: null });
  expect(child.stdout).toEqual([
    "command: spawn /bin/sh EMFILE",
    "server: spawn /bin/cat EMFILE",
    "search: line 1",
    expect.stringContaining("search in a new process: A search cannot be started now"),
    expect.stringContaining("output: A search cannot be started now"),
    expect.stringContaining("workspace: Your workspace cannot be counted now"),
    "search: line 1",
    // Ending its process takes none; the process for the linear engine does.
    expect.stringContaining("search that has to be ended: A search cannot be started now"),
    "command: echoed",
    "server: started",
    "search: line 1",
    "search in a new process: line 1",
    "output: fits",
    "workspace: 0 files",
    expect.stringContaining('grep with 0: "." cannot be opened now'),
    expect.stringContaining('glob with 0: "." cannot be opened now'),
    expect.stringContaining('grep with 1: "." cannot be opened now'),
    expect.stringContaining('glob with 1: "." cannot be opened now'),
    expect.stringContaining('grep with 2: "." cannot be opened now'),
    expect.stringContaining('glob with 2: "." cannot be opened now'),
    "grep with 3: deep/low.txt:1:needle top.txt:1:needle",
    "glob with 3: deep/low.txt top.txt",
  ]);
});
