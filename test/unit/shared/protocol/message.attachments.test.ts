/** Guarantee: what comes with a message is within its bounds, and no path in it leads out of where it belongs. */
import { describe, expect, test } from "vitest";
import {
  FileInput,
  FilesInput,
  fitTogether,
  ImageInput,
  ImagesInput,
} from "../../../../src/shared/protocol/message.ts";

const MB = 1024 * 1024;
const at = (path: string) => FileInput.safeParse({ path, content: "x" }).success;
const from = (path: string) => FileInput.safeParse({ path: "a", from: path }).success;
const many = <T>(length: number, make: (i: number) => T) => Array.from({ length }, (_, i) => make(i));

describe("a path in the workspace", () => {
  test.each(["a", "a/b", ".hidden", "a..b", "..a", "é", "a b", `${"d/".repeat(31)}f`, "é".repeat(256)])(
    "may be %j",
    (path) => {
      expect(at(path)).toBe(true);
    },
  );

  test.each([
    "",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "a/./b",
    "a\\b",
    "a\nb",
    "a\u0000b",
    "a\u009fb",
    "a\ud800b",
    `${"d/".repeat(32)}f`,
    `${"é".repeat(256)}x`,
    ".subagent-queue-draft-1",
    "a/.subagent-queue-draft-1",
  ])("may not be %j", (path) => {
    expect(at(path)).toBe(false);
  });
});

describe("the path of a file that is named instead of sent", () => {
  test.each(["/srv/data/table.csv", "/a..b", "/..a", "/a\\b", `/${"a".repeat(4_095)}`])(
    "may be %j",
    (path) => {
      expect(from(path)).toBe(true);
    },
  );

  test.each([
    "",
    "a",
    "./a",
    "~/a",
    "/..",
    "/a/../b",
    "/a\nb",
    "/a\u0000",
    "/a\ud800",
    `/${"a".repeat(4_096)}`,
  ])("may not be %j", (path) => {
    expect(from(path)).toBe(false);
  });
});

test("a file has exactly one of content, base64 and from", () => {
  const ways = { content: "", base64: "", from: "/a" };
  const names = ["content", "base64", "from"] as const;
  for (const name of names) {
    expect(FileInput.safeParse({ path: "a", [name]: ways[name] }).success).toBe(true);
    const { [name]: _, ...others } = ways;
    expect(FileInput.safeParse({ path: "a", ...others }).success).toBe(false);
  }
  expect(FileInput.safeParse({ path: "a", ...ways }).success).toBe(false);
  expect(FileInput.safeParse({ path: "a" }).success).toBe(false);
});

test.each([
  ["eA==", true],
  ["eHg=", true],
  ["eHh4", true],
  ["eA=", false],
  ["eA", false],
  ["e=A=", false],
  ["e-_A", false],
  ["====", false],
])("base64 %j is taken: %j", (base64, isTaken) => {
  expect(FileInput.safeParse({ path: "a", base64 }).success).toBe(isTaken);
});

test("64 files and 64 images come with one message, and no more", () => {
  const file = (i: number) => ({ path: `f${i}`, content: "" });
  expect(FilesInput.safeParse(many(64, file)).success).toBe(true);
  expect(FilesInput.safeParse(many(65, file)).success).toBe(false);
  const image = () => ({ base64: Buffer.from("GIF89a").toString("base64") });
  expect(ImagesInput.safeParse(many(64, image)).success).toBe(true);
  expect(ImagesInput.safeParse(many(65, image)).success).toBe(false);
});

test("no file stands where another is, or has its directory", () => {
  const files = (...paths: string[]) =>
    FilesInput.safeParse(paths.map((path) => ({ path, content: "" }))).success;
  expect(files("a", "b", "c/a", "c/b", "ab/c")).toBe(true);
  expect(files("a", "a")).toBe(false);
  expect(files("a/b/c", "a")).toBe(false);
  expect(files("a/b", "a/b/c/d")).toBe(false);
});

test("files and images of one message have 4 MB together, as they are", () => {
  const files = [
    { path: "a", content: "é".repeat(MB) },
    { path: "b", base64: Buffer.alloc(MB).toString("base64") },
  ];
  const image = (bytes: number) => ({ base64: Buffer.alloc(bytes).toString("base64") });
  expect(fitTogether({ files, images: [image(MB)] })).toBe(true);
  expect(fitTogether({ files, images: [image(MB + 1)] })).toBe(false);
  expect(fitTogether({ files: [...files, { path: "c", from: "/srv/large" }], images: [image(MB)] })).toBe(
    true,
  );
  expect(fitTogether({})).toBe(true);
});

describe("an image", () => {
  const image = (head: string, bytes = 16, media_type?: string) => {
    const content = Buffer.concat([
      Buffer.from(head, "latin1"),
      Buffer.alloc(Math.max(0, bytes - head.length)),
    ]);
    return ImageInput.safeParse({ base64: content.toString("base64"), ...(media_type && { media_type }) });
  };

  test.each([
    ["image/png", "\x89PNG\r\n\x1a\n"],
    ["image/jpeg", "\xff\xd8\xff"],
    ["image/gif", "GIF87a"],
    ["image/gif", "GIF89a"],
    ["image/webp", "RIFFabcdWEBP"],
  ])("is %s by its first bytes", (type, head) => {
    expect(image(head).data?.media_type).toBe(type);
    expect(image(head, 16, type).data?.media_type).toBe(type);
    expect(image(head, 16, type === "image/png" ? "image/gif" : "image/png").success).toBe(false);
  });

  test.each(["", "<svg>", "GIF88a", "RIFFabcdWAVE", "xRIFFabcdWEBP", "BM"])(
    "is none by the bytes %j",
    (head) => {
      expect(image(head).success).toBe(false);
    },
  );

  test("has what the Messages API takes at most", () => {
    expect(image("GIF89a", 3_750_000).success).toBe(true);
    expect(image("GIF89a", 3_750_001).success).toBe(false);
  });
});
