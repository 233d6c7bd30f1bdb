/** Checks that every export has a TSDoc comment. Re-exports need none: the declaration has it. */
import {
  isBindingElement,
  isExportAssignment,
  isExportDeclaration,
  isIdentifier,
  isNamedExports,
  isVariableStatement,
  type Node,
  type SourceFile,
} from "typescript/unstable/ast";
import { lineOf, type Source, type Violation } from "./source.ts";

/**
 * Finds exports without a comment. Several declarations of one name (overloads, a schema and its inferred type) need only
 * one comment.
 */
export function findUndocumented(sources: readonly Source[]): Violation[] {
  return sources.flatMap(({ path, file }) => {
    const statements = [...file.statements];
    const documented = new Set(statements.filter((each) => hasDoc(each, file)).flatMap(declaredNames));
    const declared = new Set(statements.flatMap(declaredNames));
    const missing = new Map<string, number>();
    for (const { name, node } of statements.flatMap(exportedNames)) {
      const isOwn = declared.has(name);
      if (isOwn && !documented.has(name) && !missing.has(name)) missing.set(name, lineOf(file, node));
    }
    return [...missing].map(([name, line]) => ({
      path,
      line,
      message: `export ${name} has no TSDoc comment`,
    }));
  });
}

/** Returns the local names that a statement exports. */
function exportedNames(statement: Node): { name: string; node: Node }[] {
  if (isExportDeclaration(statement)) {
    const { exportClause, moduleSpecifier } = statement;
    if (moduleSpecifier !== undefined || exportClause === undefined || !isNamedExports(exportClause))
      return [];
    return exportClause.elements.map((node) => ({ name: (node.propertyName ?? node.name).getText(), node }));
  }
  if (!isExportAssignment(statement) && !/^export\b/.test(statement.getText())) return [];
  return declaredNames(statement).map((name) => ({ name, node: statement }));
}

/** Returns the names that a top-level statement declares, exported or not. */
export function declaredNames(statement: Node): string[] {
  if (isVariableStatement(statement)) {
    return statement.declarationList.declarations.flatMap(({ name }) => boundNames(name));
  }
  if (isExportAssignment(statement)) return ["default"];
  if ("name" in statement && isNode(statement.name)) return boundNames(statement.name);
  return /^export default\b/.test(statement.getText()) ? ["default"] : [];
}

/** Returns the names bound by an identifier or a pattern. */
function boundNames(target: Node): string[] {
  if (isIdentifier(target)) return [target.text];
  const names: string[] = [];
  target.forEachChild((element) => {
    if (isBindingElement(element) && element.name !== undefined) names.push(...boundNames(element.name));
  });
  return names;
}

/** Returns whether the comment directly before the statement is a TSDoc comment with at least one word. */
function hasDoc(statement: Node, file: SourceFile): boolean {
  const before = file.text.slice(statement.pos, statement.getStart(file)).trimEnd();
  if (!before.endsWith("*/")) return false;
  const last = before.slice(before.lastIndexOf("/*"));
  return last.startsWith("/**") && /\w{2}/.test(last);
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "kind" in value;
}
