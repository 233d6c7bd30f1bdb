/**
 * What of an opened directory a command must not reach: files that hold secrets, sockets and FIFOs, which a read-only
 * mount does not close, and other file systems.
 *
 * A directory that cannot be looked at whole is not shown at all. What is looked at is the tree as it stood at most {@link
 * FRESH_MS} before the command, which cannot change it itself.
 *
 * A link is not covered itself: what is mounted on it lands on its target, and where no target is shown the sandbox does not
 * start. What a link with a secret name leads to is covered, whatever its own name.
 */
import { lstat, opendir, realpath } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../../shared/clock.ts";
import { isSecret } from "../files/policy.ts";
import type { Area } from "../workspace.ts";

/** Paths below an area to be covered, and what its links lead to; or why the area cannot be shown. */
export type Cover =
  | {
      readonly files: readonly string[];
      readonly directories: readonly string[];
      readonly targets: readonly LinkTarget[];
    }
  | { readonly problem: string };

/** What a link with a secret name leads to, in its area or anywhere: a host path without links. */
export interface LinkTarget {
  readonly path: string;
  readonly isDirectory: boolean;
}

const MAX_ENTRIES = 50_000;
const MAX_COVERED = 500;

/** Looking at 20,000 entries takes most of a second: the commands of one turn share a look. */
const FRESH_MS = 10_000;

const looks = new WeakMap<Area, { readonly cover: Cover; readonly atMs: number }>();

/** What of an area is covered, by a look at the whole tree that is at most 10 s old. */
export async function coverOf(area: Area, clock: Clock, signal: AbortSignal): Promise<Cover> {
  const last = looks.get(area);
  if (last !== undefined && clock.monotonicMs() - last.atMs < FRESH_MS) return last.cover;
  const atMs = clock.monotonicMs();
  const cover = await look(area, signal);
  if (!signal.aborted) looks.set(area, { cover, atMs });
  return cover;
}

async function look(area: Area, signal: AbortSignal): Promise<Cover> {
  const files: string[] = [];
  const directories: string[] = [];
  const targets: LinkTarget[] = [];
  const open: string[][] = [[]];
  let left = MAX_ENTRIES;
  try {
    const { dev } = await lstat(area.path);
    for (let segments = open.pop(); segments !== undefined; segments = open.pop()) {
      if (signal.aborted) return { problem: "the command was stopped" };
      const here = join(area.path, ...segments);
      if ((await lstat(here)).dev !== dev) {
        directories.push(segments.join("/"));
        continue;
      }
      for await (const entry of await opendir(here, { bufferSize: 256 })) {
        if (left-- <= 0) return { problem: `it has more than ${MAX_ENTRIES} entries` };
        const below = [...segments, entry.name];
        if (entry.isSymbolicLink()) {
          if (isSecret(below)) targets.push(...(await targetOf(join(here, entry.name))));
        } else if (isSecret(below)) (entry.isDirectory() ? directories : files).push(below.join("/"));
        else if (entry.isDirectory()) open.push(below);
        else if (!entry.isFile()) files.push(below.join("/"));
      }
    }
  } catch {
    return { problem: "it cannot be read whole" };
  }
  const covered = files.length + directories.length + targets.length;
  return covered > MAX_COVERED
    ? { problem: "too much of it may hold secrets" }
    : { files, directories, targets };
}

/** Nothing where the link leads nowhere, or where its target cannot be reached. */
async function targetOf(link: string): Promise<LinkTarget[]> {
  try {
    const path = await realpath(link);
    return [{ path, isDirectory: (await lstat(path)).isDirectory() }];
  } catch {
    return [];
  }
}
