/** Who may import whom: the rooms of the house, and the one door that each package has. */
import { isBuiltin } from "node:module";
import { COMPUTED, type Import, type Source, type Violation } from "./source.ts";

/** A folder (ends in `/`) or file of src, and everything it may import. The longest matching row is the file's. */
interface Room {
  room: string;
  /** Folders or files of src. */
  may: readonly string[];
  /** Taken out of `may` again. */
  never?: readonly string[];
  /** Files of which it may import types, and nothing that exists at run time. */
  types?: readonly string[];
  /** The only packages; default: whatever has its door here. */
  packages?: readonly string[];
  /** The only built-in modules; default: all. */
  builtins?: readonly string[];
}

const ROOMS: readonly Room[] = [
  {
    room: "src/shared/protocol/",
    may: ["src/shared/protocol/"],
    packages: ["zod"],
    builtins: ["node:crypto"],
  },
  { room: "src/shared/errors.ts", may: ["src/shared/protocol/"], packages: ["zod"], builtins: [] },
  { room: "src/shared/redis/", may: ["src/shared/"] },
  { room: "src/shared/", may: ["src/shared/"], never: ["src/shared/redis/"] },
  { room: "src/producer/", may: ["src/producer/", "src/shared/"] },
  {
    room: "src/worker/loop/",
    may: ["src/worker/loop/", "src/shared/protocol/"],
    types: ["src/worker/model/model.ts", "src/worker/tools/tool.ts"],
    packages: ["zod"],
    builtins: [],
  },
  { room: "src/worker/", may: ["src/worker/", "src/shared/"] },
  { room: "src/offline/", may: ["src/offline/"], packages: ["zod"] },
  { room: "src/cli/", may: ["src/"] },
  { room: "src/index.ts", may: ["src/producer/", "src/shared/"] },
];

/** Where a package may be imported. A package without a row has no door yet and is refused everywhere. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  zod: ["src/"],
  ioredis: ["src/shared/redis/"],
  bullmq: ["src/shared/redis/wake-queue.ts", "src/worker/pool.ts"],
  "@anthropic-ai/sdk": ["src/worker/model/"],
  undici: ["src/worker/model/"],
  pino: ["src/shared/logger.ts"],
  "pino-pretty": ["src/shared/logger.ts"],
  commander: ["src/cli/"],
  "js-redis-server": ["src/cli/embedded-redis-child.ts", "src/cli/exact-lua-numbers.ts"],
  express: ["src/producer/http/"],
  helmet: ["src/producer/http/"],
  "@bull-board/api": ["src/producer/http/bull-board.ts"],
  "@bull-board/express": ["src/producer/http/bull-board.ts"],
  picomatch: ["src/worker/tools/"],
  ignore: ["src/worker/tools/"],
};

/** Imports between files of src that the table of rooms does not allow. */
export function findForbiddenImports(sources: readonly Source[]): Violation[] {
  return eachImport(sources, (path, imported) => {
    if (imported.specifier === COMPUTED) {
      return path.startsWith("src/cli/")
        ? undefined
        : "a computed import can reach anything; name the module";
    }
    const { target } = imported;
    if (target === undefined) return undefined;
    const room = roomOf(path);
    if (room === undefined) return `${path} is in no room: give it a row in test/architecture/rooms.ts`;
    const open = room.may.some(contains(target)) && !room.never?.some(contains(target));
    if (open || (imported.typeOnly && room.types?.includes(target))) return undefined;
    return `${room.room} may not import ${target}${room.types?.includes(target) ? " but with `import type`" : ""}`;
  });
}

/** Packages and built-in modules that come in by another way than their door. */
export function findSideDoors(sources: readonly Source[]): Violation[] {
  return eachImport(sources, (path, { specifier, target }) => {
    if (target !== undefined || specifier === COMPUTED) return undefined;
    const room = roomOf(path);
    if (isBuiltin(specifier)) {
      if (room?.builtins === undefined || room.builtins.includes(specifier)) return undefined;
      return `${room.room} may not import ${specifier}`;
    }
    const name = packageOf(specifier);
    if (room?.packages?.includes(name) === false) return `${room.room} may not import ${name}`;
    const doors = DOORS[name];
    if (doors === undefined) return `${name} has no door yet: give it one in test/architecture/rooms.ts`;
    return doors.some(contains(path)) ? undefined : `${name} may only be imported in ${doors.join(", ")}`;
  });
}

function eachImport(
  sources: readonly Source[],
  judge: (path: string, imported: Import) => string | undefined,
): Violation[] {
  return sources.flatMap(({ path, imports }) =>
    imports.flatMap((imported) => {
      const message = judge(path, imported);
      return message === undefined ? [] : [{ path, line: imported.line, message }];
    }),
  );
}

function roomOf(path: string): Room | undefined {
  const rooms = ROOMS.filter(({ room }) => contains(path)(room));
  return rooms.sort((a, b) => b.room.length - a.room.length)[0];
}

/** Whether a row (a folder or a file) contains the path. */
function contains(path: string): (row: string) => boolean {
  return (row) => (row.endsWith("/") ? path.startsWith(row) : path === row);
}

function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}
