/** Parses `SUBAGENT_ROOTS`, the list of directories that an operator opens to the tools of every sub-agent. */
import { realpathSync, statfsSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, resolve } from "node:path";

/** A directory outside the workspaces that tools may use. */
export interface OpenRoot {
  /** Path as the operator wrote it, without trailing slash: models see this name. */
  readonly path: string;
  /** The same directory without symbolic links. */
  readonly realPath: string;
  readonly mode: "ro" | "rw";
}

/** The parsed list, or one sentence that says what to correct. */
export type ParsedRoots = { readonly roots: readonly OpenRoot[] } | { readonly problem: string };

const FORM = "SUBAGENT_ROOTS must look like /srv/repo:ro,/data:rw";

/** System directories: neither they nor anything below may be a root. */
const SYSTEM_TREES =
  /^\/((private\/)?etc|proc|sys|dev|run|boot|bin|sbin|lib\w*|usr\/(local\/)?(bin|sbin|lib\w*)|var\/(run|lock|spool|lib\/(docker|containerd|containers|kubelet))|System|Library)(\/|$)/;
/** Directories of home directories. A whole one is no root: it holds keys, and files that shells and programs run. */
const HOMES = ["/home", "/Users"];
/**
 * File systems that expose the kernel and its processes, by their Linux magic numbers, wherever they are mounted: proc,
 * sysfs, devpts, debugfs, tracefs, securityfs, configfs, bpf, cgroup, cgroup2, efivarfs, mqueue, binfmt_misc, nsfs, pstore.
 */
const KERNEL_FILE_SYSTEMS = new Set([
  0x9f_a0, 0x62_65_65_72, 0x1c_d1, 0x64_62_67_20, 0x74_72_61_63, 0x73_63_66_73, 0x62_65_65_70, 0xca_fe_4a_11,
  0x27_e0_eb, 0x63_67_72_70, 0xde_5e_81_e4, 0x19_80_02_02, 0x42_49_4e_4d, 0x6e_73_66_73, 0x61_65_67_6c,
]);
/** Directories shared by all users: they may not be roots, but directories below them may. */
const SHARED_DIRECTORIES = [
  ...HOMES,
  ...["/", "/root", "/tmp", "/var", "/var/lib", "/var/log", "/var/tmp", "/usr", "/usr/local"],
  ...["/opt", "/mnt", "/media"],
];

/**
 * Parses `/srv/repo:ro,/data:rw`: absolute, existing directories, mode `ro` (default) or `rw`; empty means none. Reads the
 * file system to resolve links; never throws.
 */
export function parseRoots(text: string): ParsedRoots {
  if (typeof text !== "string") return { problem: `${FORM}; it is no text.` };
  const roots = new Map<string, OpenRoot>();
  for (const item of text.split(",").map((part) => part.trim())) {
    if (item === "") continue;
    const parsed = parseRoot(item);
    if ("problem" in parsed) return parsed;
    const earlier = roots.get(parsed.realPath);
    if (earlier !== undefined && earlier.mode !== parsed.mode) {
      return { problem: `${FORM}; ${parsed.path} is opened both ro and rw.` };
    }
    if (earlier === undefined) roots.set(parsed.realPath, parsed);
  }
  return { roots: [...roots.values()] };
}

/** Parses one directory of such a list; a comma is a part of its name. */
export function parseRoot(item: string): OpenRoot | { problem: string } {
  const colon = item.lastIndexOf(":");
  const mode = colon < 0 ? "ro" : item.slice(colon + 1);
  const path = colon < 0 ? item : item.slice(0, colon);
  const shown = JSON.stringify(item);
  if (mode !== "ro" && mode !== "rw")
    return { problem: `${FORM}; the mode in ${shown} is neither ro nor rw.` };
  if (!isAbsolute(path) || path.includes("\0"))
    return { problem: `${FORM}; ${shown} is not an absolute path.` };
  let realPath: string;
  let fileSystem: number;
  try {
    realPath = realpathSync(path);
    if (!statSync(realPath).isDirectory()) return { problem: `${FORM}; ${shown} is not a directory.` };
    fileSystem = statfsSync(realPath).type;
  } catch {
    return { problem: `${FORM}; ${shown} does not exist or cannot be read.` };
  }
  if (KERNEL_FILE_SYSTEMS.has(fileSystem))
    return {
      problem: `${FORM}; ${shown} may not be opened: it shows the kernel and its processes, like /proc and /sys.`,
    };
  if (SYSTEM_TREES.test(realPath) || isShared(realPath) || isHome(realPath)) {
    return {
      problem: `${FORM}; ${shown} may not be opened: it holds more than one project. Open a directory in it.`,
    };
  }
  return { path: resolve(path), realPath, mode };
}

/** Compares without links: where `/home` leads to `/var/home`, the latter is shared. */
function isShared(realPath: string): boolean {
  return SHARED_DIRECTORIES.some((directory) => withoutLinks(directory) === realPath);
}

/** Returns true for the home of the process's user, wherever it is, and for those of other users. */
function isHome(realPath: string): boolean {
  const [own, parent] = [ownHome(), dirname(realPath)];
  return (
    (own !== undefined && withoutLinks(own) === realPath) ||
    HOMES.some((directory) => withoutLinks(directory) === parent)
  );
}

/** Returns undefined for a user without a home, such as a number that no list of users has. */
function ownHome(): string | undefined {
  try {
    return homedir();
  } catch {
    return undefined;
  }
}

/** Returns the real path of a directory; that of one that does not exist is as written. */
function withoutLinks(directory: string): string {
  try {
    return realpathSync(directory);
  } catch {
    return directory;
  }
}
