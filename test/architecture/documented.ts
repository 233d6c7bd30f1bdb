/** Every export carries a TSDoc comment. Re-exports do not: theirs stands where the thing is declared. */
import type { Comment, Node, Statement } from "@babel/types";
import { lineOf, type Source, type Violation } from "./source.ts";

/**
 * Exports without a comment. Declarations of one name (overloads, a schema and its inferred type) need one comment
 * between them.
 */
export function findUndocumented(sources: readonly Source[]): Violation[] {
  return sources.flatMap(({ path, ast }) => {
    const statements = ast.program.body;
    const documented = new Set(statements.filter(hasDoc).flatMap(declaredNames));
    const missing = new Map<string, number>();
    for (const { name, line } of statements.flatMap(exportedNames)) {
      if (!documented.has(name) && !missing.has(name)) missing.set(name, line);
    }
    return [...missing].map(([name, line]) => ({
      path,
      line,
      message: `export ${name} has no TSDoc comment`,
    }));
  });
}

/** Local names that a statement exports. An imported name that is exported again is a re-export. */
function exportedNames(statement: Statement, _index: number, all: readonly Statement[]): Named[] {
  const line = lineOf(statement);
  if (statement.type === "ExportDefaultDeclaration") {
    return declaredNames(statement).map((name) => ({ name, line }));
  }
  if (statement.type !== "ExportNamedDeclaration" || statement.source != null) return [];
  if (statement.declaration != null) return declaredNames(statement).map((name) => ({ name, line }));
  const local = new Set(all.flatMap(declaredNames));
  return statement.specifiers.flatMap((specifier) => {
    if (specifier.type !== "ExportSpecifier" || !local.has(specifier.local.name)) return [];
    return [{ name: specifier.local.name, line: lineOf(specifier) }];
  });
}

interface Named {
  name: string;
  line: number;
}

/** Names that a top-level statement declares, exported or not. */
function declaredNames(statement: Node): string[] {
  switch (statement.type) {
    case "ExportNamedDeclaration":
      return statement.declaration == null ? [] : declaredNames(statement.declaration);
    case "ExportDefaultDeclaration":
      return "id" in statement.declaration && statement.declaration.id != null
        ? declaredNames(statement.declaration)
        : ["default"];
    case "VariableDeclaration":
      return statement.declarations.flatMap(({ id }) => boundNames(id));
    default:
      return "id" in statement && statement.id != null ? boundNames(statement.id) : [];
  }
}

/** Names bound by an identifier or a pattern. */
function boundNames(target: Node): string[] {
  switch (target.type) {
    case "Identifier":
      return [target.name];
    case "ObjectPattern":
      return target.properties.flatMap((property) =>
        boundNames(property.type === "RestElement" ? property.argument : property.value),
      );
    case "ArrayPattern":
      return target.elements.flatMap((element) => (element === null ? [] : boundNames(element)));
    case "AssignmentPattern":
      return boundNames(target.left);
    default:
      return [];
  }
}

/** Whether the comment right before the statement is a TSDoc comment that says something. */
function hasDoc(statement: Statement): boolean {
  const comment: Comment | undefined = statement.leadingComments?.at(-1);
  return comment?.type === "CommentBlock" && comment.value.startsWith("*") && /\w{2}/.test(comment.value);
}
