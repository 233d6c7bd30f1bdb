/** For programs that try what happens without file descriptors: gives the process few of them, and takes those. */
import { spawnSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";

/** Takes all but `free` descriptors; returns a function that gives them back. */
export function takeDescriptors(free: number): () => void {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync("/dev/null", "r"));
  } catch {
    for (const descriptor of taken.splice(-free, free)) closeSync(descriptor);
  }
  return () => void taken.map(closeSync);
}

/** Runs `main` in a process that may have `most` descriptors: this program, started once more, whose exit code it takes. */
export async function withDescriptors(most: number, main: () => Promise<void>): Promise<void> {
  if (process.argv[2] === "bounded") return main();
  const bounded = `ulimit -n ${most} && exec "$0" "$@"`;
  const again = [process.execPath, process.argv[1] ?? "", "bounded"];
  process.exitCode = spawnSync("/bin/sh", ["-c", bounded, ...again], { stdio: "inherit" }).status ?? 1;
}
