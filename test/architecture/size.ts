/** Limits the length of files and functions. */
import { isFunctionLikeDeclaration } from "typescript/unstable/ast";
import { findNodes, lineAt, lineOf, type Source, type Violation } from "./source.ts";

const MAX_FILE_LINES = 400;
const MAX_FUNCTION_LINES = 50;

/** Finds files of more than 400 lines. */
export function findLongFiles(sources: readonly Source[]): Violation[] {
  return sources.flatMap(({ path, text }) => {
    const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
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
