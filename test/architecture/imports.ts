/** Checks each file's imports against the tables of rooms and doors, and the tables for rows that no file uses. */
import { isBuiltin } from "node:module";
import { DOORS, ROOMS, type Room } from "./rooms.ts";
import { COMPUTED, type Import, lineOf, type Source, usesIn, type Violation } from "./source.ts";

/** Network globals of Node, which need no import. */
const NETWORK = ["node:fetch", "node:WebSocket", "node:EventSource"];

/** Finds imports between files of src that the table of rooms does not allow. */
export function findForbiddenImports(sources: readonly Source[]): Violation[] {
  return eachImport(sources, (path, { specifier, target }) => {
    if (specifier === COMPUTED) return "a computed import can reach anything; name the module";
    if (target === undefined) return undefined;
    const room = roomOf(path);
    if (room === undefined) return `${path} is in no room: give it a row in test/architecture/rooms.ts`;
    const theirs = roomOf(target)?.room ?? target;
    if (theirs === room.room || room.may.includes(theirs)) return undefined;
    return `${room.room} may not import ${target}`;
  });
}

/** Finds packages, built-in modules and network globals that a file uses without being one of their doors. */
export function findSideDoors(sources: readonly Source[]): Violation[] {
  return sources.flatMap((source) => {
    const { path } = source;
    return broughtInto(source).flatMap(({ name, line }) => {
      const message = refusalOf(name, path);
      return message === undefined ? [] : [{ path, line, message }];
    });
  });
}

function refusalOf(name: string, path: string): string | undefined {
  const room = roomOf(path);
  const isPackage = !/^(node:|global )/.test(name);
  const only = isPackage ? room?.packages : name.startsWith("node:") ? room?.builtins : undefined;
  if (only?.includes(name) === false) return `${room?.room} may not import ${name}`;
  const doors = DOORS[name];
  if (doors === undefined) {
    return isPackage ? `${name} has no door yet: give it one in test/architecture/rooms.ts` : undefined;
  }
  return doors.some(contains(path))
    ? undefined
    : `${name} may only be used in ${doors.join(", ") || "no file"}`;
}

/** Returns the packages, built-in modules and network globals that a file uses, named as in {@link DOORS}. */
function broughtInto(source: Source): { name: string; line: number }[] {
  const imported = source.imports.flatMap(({ specifier, target, line }) => {
    if (target !== undefined || specifier === COMPUTED) return [];
    const name = isBuiltin(specifier) ? `node:${specifier.replace(/^node:/, "")}` : packageOf(specifier);
    return [{ name, line }];
  });
  const used = usesIn(source, NETWORK).map((node) => ({
    name: `global ${source.meaningOf(node)?.name}`,
    line: lineOf(source.file, node),
  }));
  return [...imported, ...used];
}

/** Finds rows that allow a room later in the table, or a missing room: such a table would allow cycles. */
export function findUpwardRows(rooms: readonly Room[]): string[] {
  return rooms.flatMap(({ room, may }, index) => {
    const above = new Set(rooms.slice(0, index).map((row) => row.room));
    return may.filter((other) => !above.has(other)).map((other) => `${room} -> ${other}`);
  });
}

/** Finds unused entries of the tables: rooms without a file, and permitted imports that no file uses. */
export function findUnusedRows(sources: readonly Source[]): string[] {
  const needed = new Set(sources.flatMap(neededBy));
  const rooms = ROOMS.flatMap(({ room, may, packages = [], builtins = [] }) => [
    room,
    ...[...may, ...packages, ...builtins].map((other) => `${room} -> ${other}`),
  ]);
  const doors = Object.entries(DOORS).flatMap(([name, paths]) => paths.map((path) => `${path} -> ${name}`));
  return [...rooms, ...doors].filter((row) => !needed.has(row));
}

/** Returns the entries that a file needs: its room, the room's imports, and the doors it uses. */
function neededBy(source: Source): string[] {
  const room = roomOf(source.path)?.room ?? "";
  const rooms = source.imports.flatMap(({ target }) => (target && roomOf(target)?.room) ?? []);
  const names = broughtInto(source).map(({ name }) => name);
  const doors = names.flatMap((name) =>
    (DOORS[name] ?? []).filter(contains(source.path)).map((door) => `${door} -> ${name}`),
  );
  return [room, ...[...rooms, ...names].map((other) => `${room} -> ${other}`), ...doors];
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

/** Returns a predicate: whether a row (a folder or a file) contains the path. */
function contains(path: string): (row: string) => boolean {
  return (row) => (row.endsWith("/") ? path.startsWith(row) : path === row);
}

function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}
