/** Guarantee: where a process has no file descriptor left, a command and an MCP server fail alone, and work again later. */
import { expect, it } from "vitest";
import { spawnNode } from "../../../../helpers/processes.ts";

it("a command or server that finds no file descriptor does not end its worker", async () => {
  const child = await spawnNode("test/helpers/fixtures/without-descriptors.ts");
  expect(await child.closed, child.stderr.join("\n")).toEqual({ code: 0, signal: null });
  expect(child.stdout).toEqual([
    "command: spawn /bin/sh EMFILE",
    "server: spawn /bin/cat EMFILE",
    "command: echoed",
    "server: started",
  ]);
});
