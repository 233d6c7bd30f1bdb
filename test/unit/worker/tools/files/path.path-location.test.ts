import { describe, expect, it } from "vitest";
import { ToolFailure } from "../../../../../src/shared/errors.ts";
import { locate, relocate, shownPath } from "../../../../../src/worker/tools/files/path.ts";
import type { Area, Workspace } from "../../../../../src/worker/tools/workspace.ts";

const home: Area = { kind: "workspace", path: "/w/t/p/agents/a1/workspace", shownAs: ".", writable: true };
const root = (path: string, shownAs: string, writable = false): Area => ({
  kind: "root",
  path,
  shownAs,
  writable,
});
const workspace: Workspace = {
  directory: home.path,
  home,
  hidden: "/w",
  roots: [root("/srv/v7/repo", "/srv/current"), root("/data", "/data", true), root("/data/raw", "/data/raw")],
  exclusive: (work) => work(),
};

describe("locate", () => {
  it.each([
    [".", ".", ""],
    ["a/./b//c/..", ".", "a/b"],
    ["~x", ".", "~x"],
    ["...", ".", "..."],
    ["/srv/current", "/srv/current", ""],
    ["/srv/current/a", "/srv/current", "a"],
    ["/srv/v7/repo/a", "/srv/current", "a"],
    ["/data/x", "/data", "x"],
    ["/data/raw/x", "/data/raw", "x"],
    ["/data/x/../raw/y", "/data/raw", "y"],
    ["/data/raw-x", "/data", "raw-x"],
    [`${home.path}/a`, ".", "a"],
  ])("finds the area of %s", (path, area, below) => {
    const target = locate(workspace, path);
    expect([target.area.shownAs, target.segments.join("/")]).toEqual([area, below]);
  });

  it.each([
    "..",
    "../workspace-evil/x",
    "a/../../x",
    `${home.path}-evil/x`,
    "/srv/current-evil/x",
    "/srv/v7/repo-evil",
    "/srv/v7",
    "/datax",
    "/data/../etc",
    "/w/t/p/agents/a2/workspace/x",
    "/",
    "~",
    "~/x",
    "",
    "a\0",
    "\udfff",
    "x".repeat(4_097),
    "d/".repeat(101),
  ])("refuses %j", (path) => {
    expect(() => locate(workspace, path)).toThrow(ToolFailure);
  });

  it("hides the workspaces even from a root around them, and from links", () => {
    const wide = { ...workspace, roots: [root("/", "/")] };
    expect(() => relocate(wide, "/w/t/p/agents/a2/workspace/x", "link")).toThrow('"link" is outside');
    expect(() => relocate(wide, "/w", "link")).toThrow('"link" is outside');
    expect(relocate(wide, "/wide", "link").segments).toEqual(["wide"]);
  });
});

describe("shownPath", () => {
  it("is relative in the workspace and absolute in a root, on one line", () => {
    expect(shownPath(home, [])).toBe(".");
    expect(shownPath(home, ["a", "b\nc"])).toBe("a/b\ufffdc");
    expect(shownPath(root("/srv/v7/repo", "/srv/current"), ["a"])).toBe("/srv/current/a");
    expect(shownPath(root("/srv/v7/repo", "/srv/current"), [])).toBe("/srv/current");
  });
});
