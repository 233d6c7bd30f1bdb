/** Guarantee: what a command in gVisor gets of its machine is the least that it needs. */
import { expect, test } from "vitest";
import { ociConfig } from "../../../../../src/worker/tools/sandbox/runsc.ts";

const NOTHING = { areas: [], files: [], directories: [], withheld: [] };

test("a command has namespaces of its own and no capabilities, and no program in its file systems has another's rights", () => {
  const { linux, process, mounts } = ociConfig("/host/workspace", NOTHING, "/bundle", 65_534);
  expect(linux.namespaces.map(({ type }) => type)).toEqual(["pid", "network", "ipc", "uts", "mount"]);
  expect(Object.values(process.capabilities)).toEqual(Array(5).fill([]));
  expect(mounts.filter(({ type }) => type !== "bind")).toEqual([
    { destination: "/proc", type: "proc", source: "proc", options: ["nosuid", "noexec", "nodev"] },
    { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid"] },
    {
      destination: "/dev/shm",
      type: "tmpfs",
      source: "tmpfs",
      options: ["nosuid", "nodev", "size=67108864"],
    },
    { destination: "/tmp", type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev", "size=268435456"] },
  ]);
});
