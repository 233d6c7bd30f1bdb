/** Limits the length of files and functions. */
import { isFunctionLikeDeclaration } from "typescript/unstable/ast";
import { findNodes, lineAt, lineOf, type Source, type Violation } from "./source.ts";

const MAX_FILE_LINES = 400;
const MAX_FUNCTION_LINES = 50;

/** Most lines of all files of a room that must stay small, whatever they can do. */
const MAX_ROOM_LINES: Readonly<Record<string, number>> = {
  "src/cli/doctor/": 1_300,
  "src/offline/rules/": 300,
};

const linesOf = ({ text }: Source): number => text.split("\n").length - (text.endsWith("\n") ? 1 : 0);

/** Finds rooms of {@link MAX_ROOM_LINES} that have more lines; reported at their first file. */
export function findLargeRooms(sources: readonly Source[]): Violation[] {
  return Object.entries(MAX_ROOM_LINES).flatMap(([room, most]) => {
    const files = sources.filter(({ path }) => path.startsWith(room));
    const lines = files.reduce((sum, file) => sum + linesOf(file), 0);
    if (lines <= most) return [];
    return files.slice(0, 1).map(({ path }) => ({
      path,
      line: 1,
      message: `${room} has ${lines} lines; at most ${most}`,
    }));
  });
}

/** Finds files of more than 400 lines. */
export function findLongFiles(sources: readonly Source[]): Violation[] {
  return sources.flatMap((source) => {
    const { path } = source;
    const lines = linesOf(source);
    if (lines <= MAX_FILE_LINES) return [];
    return [{ path, line: 1, message: `${lines} lines; at most ${MAX_FILE_LINES}` }];
  });
}

/** Finds functions and methods of more than 50 lines, from their first line to their last, nested functions included. */
export function findLongFunctions(sources: readonly Source[]): Violation[] {
  return findNodes(sources, (node, { file }) => {
    if (!isFunctionLikeDeclaration(node)) return undefined;
    const lines = lineAt(file, node.end) - lineOf(file, node) + 1;
    return lines > MAX_FUNCTION_LINES
      ? `a function of ${lines} lines; at most ${MAX_FUNCTION_LINES}`
      : undefined;
  });
}
