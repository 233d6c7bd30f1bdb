/** Finds this package's types that a declaration exposes without naming them: inferred types of values and results. */
import {
  isBlock,
  isFunctionDeclaration,
  isGetAccessorDeclaration,
  isMethodDeclaration,
  isParameterDeclaration,
  isPropertyDeclaration,
  isTypeQueryNode,
  isVariableDeclaration,
  type Node,
} from "typescript/unstable/ast";
import { type Checker, ObjectFlags, SignatureKind, type Type } from "typescript/unstable/sync";
import type { Meaning, Source } from "./source.ts";

/** An inferred type of this package, and the node that has it. */
export interface Inferred extends Meaning {
  at: Node;
}

/** Returns the types inferred in a declaration, without its bodies and the nodes for which `isHidden` is true. */
export function inferredIn(
  statement: Node,
  { checker }: Source,
  sources: readonly Source[],
  isHidden: (node: Node) => boolean,
): Inferred[] {
  const found: Inferred[] = [];
  const seen = new Set<number>();
  const visit = (node: Node): void => {
    if (isBlock(node) || isHidden(node)) return;
    const type = inferredType(node, checker);
    if (type !== undefined) {
      for (const meaning of oursIn(type, { checker, sources, seen })) found.push({ ...meaning, at: node });
    }
    node.forEachChild((child) => {
      const isValue = "initializer" in node && node.initializer === child;
      if (!isValue) visit(child);
    });
  };
  visit(statement);
  return found;
}

/** Returns the type of a value or a function's result if it has no annotation, or is annotated with `typeof`. */
function inferredType(node: Node, checker: Checker): Type | undefined {
  if (isTypeQueryNode(node)) return checker.getTypeFromTypeNode(node);
  if (isVariableDeclaration(node) || isPropertyDeclaration(node) || isParameterDeclaration(node))
    return node.type === undefined ? checker.getTypeAtLocation(node.name) : undefined;
  if (isFunctionDeclaration(node) || isMethodDeclaration(node) || isGetAccessorDeclaration(node)) {
    const signature = node.type === undefined ? checker.getSignatureFromDeclaration(node) : undefined;
    return signature && checker.getReturnTypeOfSignature(signature);
  }
  return undefined;
}

interface Walk {
  checker: Checker;
  sources: readonly Source[];
  /** Ids of the types already visited. */
  seen: Set<number>;
}

/** Returns this package's named types that a declaration file would write for a type. Only unnamed types are expanded. */
function oursIn(type: Type, walk: Walk): Meaning[] {
  const { checker, seen } = walk;
  if (seen.has(type.id)) return [];
  seen.add(type.id);
  const given = type.isTypeReference() ? checker.getTypeArguments(type) : type.getAliasTypeArguments();
  const inGiven = given.flatMap((each) => oursIn(each, walk));
  const name = type.getAliasSymbol() ?? (isNamed(type) ? type.getSymbol() : undefined);
  if (name !== undefined) {
    const home = walk.sources.find(({ file }) => file.fileName === name.declarations[0]?.path)?.path;
    return home === undefined ? inGiven : [...inGiven, { home, name: name.name }];
  }
  // A reference without a name is a tuple, which is written by its elements; its other members are those of every array.
  if (type.isTypeReference()) return inGiven;
  return [...inGiven, ...partsOf(type, checker).flatMap((each) => oursIn(each, walk))];
}

function isNamed(type: Type): boolean {
  return (
    type.isObjectType() && (type.objectFlags & (ObjectFlags.ClassOrInterface | ObjectFlags.Reference)) !== 0
  );
}

/** Returns the types that compose an unnamed type. */
function partsOf(type: Type, checker: Checker): Type[] {
  if (type.isUnionType() || type.isIntersectionType()) return [...type.getTypes()];
  if (!type.isObjectType()) return [];
  const signatures = [SignatureKind.Call, SignatureKind.Construct].flatMap((kind) =>
    checker.getSignaturesOfType(type, kind),
  );
  const values = signatures.flatMap((signature) => signature.getParameters());
  const bounds = signatures.flatMap((signature) => signature.getTypeParameters());
  return [
    ...checker.getTypeOfSymbol([...checker.getPropertiesOfType(type), ...values]),
    ...bounds.map((bound) => checker.getConstraintOfTypeParameter(bound)),
    ...checker.getIndexInfosOfType(type).map(({ valueType }) => valueType),
    ...signatures.map((signature) => checker.getReturnTypeOfSignature(signature)),
  ].filter((part) => part !== undefined);
}
