/** Guarantee: where a process has no file descriptor left, a command, an MCP server and a search fail alone, and work again later. */
import { expect, it } from "vitest";
import { spawnNode } from "../../../../helpers/processes.ts";

it("a command, a server or a search that finds no file descriptor does not end its worker", async () => {
  const child = await spawnNode("test/helpers/fixtures/without-descriptors.ts");
  expect(await child.closed, child.stderr.join("\n")).toEqual({ code: 0, signal: null });
  expect(child.stdout).toEqual([
    "command: spawn /bin/sh EMFILE",
    "server: spawn /bin/cat EMFILE",
    // A thread that runs keeps what its time limit needs.
    "search: line 1",
    expect.stringContaining("search on a new thread: A search cannot be started now"),
    expect.stringContaining("workspace: Your workspace cannot be counted now"),
    "command: echoed",
    "server: started",
    "search: line 1",
    "search on a new thread: line 1",
    "workspace: 0 files",
  ]);
});
