/** Guarantee: permission for the tools of a server is worth something where its model has to find them first. */
import { expect, test } from "vitest";
import { type PermissionRules, permissionFor } from "../../../../src/shared/protocol/permissions.ts";

const verdict = (layer: PermissionRules, tool: string) =>
  permissionFor([layer], tool, { query: "merge" }).verdict;

test("tools may be looked up where no rule names it, whatever else needs permission", () => {
  expect(verdict({ allow: ["mcp__github"] }, "find_tools")).toBe("allow");
  expect(verdict({ default: "ask" }, "find_tools")).toBe("allow");
  expect(verdict({ allow: ["mcp__github"] }, "read_file")).toBe("deny");
});

test("a rule that names the look-up binds it", () => {
  expect(verdict({ deny: ["find_tools"] }, "find_tools")).toBe("deny");
  expect(verdict({ deny: ["*"] }, "find_tools")).toBe("deny");
  expect(verdict({ allow: ["mcp__github"], ask: ["find_*"] }, "find_tools")).toBe("ask");
});
