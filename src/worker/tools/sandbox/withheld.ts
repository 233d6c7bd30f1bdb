/**
 * Finds the paths in an opened directory that a command must not reach: files that hold secrets, sockets and FIFOs, which a
 * read-only mount does not block, and other file systems.
 *
 * A directory that cannot be scanned completely is not shown at all. A scan is at most {@link FRESH_MS} old when a command
 * starts; the command itself cannot change the tree. What has gone since is not covered: without a file below it, a mount keeps the
 * sandbox from starting. If an entry has become another kind of entry since, the tree is scanned again.
 *
 * A link itself is not covered: a mount on it would land on its target, and without a visible target the sandbox does not
 * start. The target of a link with a secret name is covered, whatever its own name.
 */
import type { Dirent } from "node:fs";
import { lstat, opendir, realpath } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../../shared/clock.ts";
import { codeOf, ToolFailure } from "../../../shared/errors.ts";
import { isSecret } from "../files/policy.ts";
import type { Area } from "../workspace.ts";

/** Entries of an area that are to be covered, and targets of its links with secret names; or why the area cannot be shown. */
export type Cover = { readonly entries: readonly CoveredEntry[] } | { readonly problem: string };

/** An entry that a command must not reach; `path`: a host path without links, below its area or, of a link's target, anywhere. */
export interface CoveredEntry {
  readonly path: string;
  readonly isDirectory: boolean;
}

/** Stands in a name for each byte that is no UTF-8. */
const NO_TEXT = "\uFFFD";

const MAX_ENTRIES = 50_000;
const MAX_COVERED = 500;

/** Longest age of a scan. Scanning 20,000 entries takes most of a second: the commands of one turn share a scan. */
const FRESH_MS = 10_000;

/** A scan is repeated if a directory has gone before its turn: what was in it may now be elsewhere in the tree. */
const SCAN_ATTEMPTS = 3;

const scans = new WeakMap<Area, { readonly cover: Cover; readonly atMs: number }>();

/** Returns the cover of an area without entries that have gone, from a scan of the whole tree that is at most 10 s old and still holds. */
export async function coverOf(area: Area, clock: Clock, signal: AbortSignal): Promise<Cover> {
  const cover = await lastScan(area, clock, signal);
  if ("problem" in cover) return cover;
  try {
    return { entries: await present(cover.entries) };
  } catch {
    scans.delete(area);
    return lastScan(area, clock, signal);
  }
}

/**
 * Returns the entries that are there. Rejects if one cannot be looked at, or is now a link, a directory where it was none, or
 * none where it was one.
 */
async function present(entries: readonly CoveredEntry[]): Promise<CoveredEntry[]> {
  const found: CoveredEntry[] = [];
  for (const entry of entries) {
    const stat = await lstat(entry.path).catch((error: unknown) => {
      if (codeOf(error) !== "ENOENT") throw error;
    });
    if (stat === undefined) continue;
    if (stat.isSymbolicLink() || stat.isDirectory() !== entry.isDirectory)
      throw new ToolFailure("another kind of entry");
    found.push(entry);
  }
  return found;
}

async function lastScan(area: Area, clock: Clock, signal: AbortSignal): Promise<Cover> {
  const last = scans.get(area);
  if (last !== undefined && clock.monotonicMs() - last.atMs < FRESH_MS) return last.cover;
  const atMs = clock.monotonicMs();
  const cover = await scan(area, signal);
  if (!signal.aborted) scans.set(area, { cover, atMs });
  return cover;
}

async function scan(area: Area, signal: AbortSignal, attempts = SCAN_ATTEMPTS): Promise<Cover> {
  const entries: CoveredEntry[] = [];
  const open: string[][] = [[]];
  let left = MAX_ENTRIES;
  try {
    const { dev } = await lstat(area.path);
    for (let segments = open.pop(); segments !== undefined; segments = open.pop()) {
      if (signal.aborted) return { problem: "the command was stopped" };
      const here = join(area.path, ...segments);
      if ((await lstat(here)).dev !== dev) {
        entries.push({ path: here, isDirectory: true });
        continue;
      }
      for await (const entry of await opendir(here, { bufferSize: 256 })) {
        if (left-- <= 0) return { problem: `it has more than ${MAX_ENTRIES} entries` };
        const below = [...segments, entry.name];
        const path = join(here, entry.name);
        const isHidden = isSecret(below);
        // No mount reaches a name that is no text.
        if ((isHidden || isSpecial(entry)) && entry.name.includes(NO_TEXT))
          return { problem: "the name of a file to be hidden is no text" };
        if (entry.isSymbolicLink()) {
          if (isHidden) entries.push(...(await targetOf(path)));
        } else if (isHidden) entries.push({ path, isDirectory: entry.isDirectory() });
        else if (entry.isDirectory()) open.push(below);
        else if (isSpecial(entry)) entries.push({ path, isDirectory: false });
      }
    }
  } catch (error) {
    if (attempts > 1 && codeOf(error) === "ENOENT") return scan(area, signal, attempts - 1);
    return { problem: "it cannot be read whole" };
  }
  return entries.length > MAX_COVERED ? { problem: "too much of it may hold secrets" } : { entries };
}

/** Checks whether an entry is a socket, a FIFO or a device. */
const isSpecial = (entry: Dirent): boolean =>
  !(entry.isFile() || entry.isDirectory() || entry.isSymbolicLink());

/** Returns the target of a link; an empty list if it does not exist or is unreachable. */
async function targetOf(link: string): Promise<CoveredEntry[]> {
  try {
    const path = await realpath(link);
    return [{ path, isDirectory: (await lstat(path)).isDirectory() }];
  } catch {
    return [];
  }
}
