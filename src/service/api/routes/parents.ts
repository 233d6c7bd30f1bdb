/** The parents of a tenant, found by the installation's index. */
import { z } from "zod";
import { readParentPage } from "../parents.ts";
import { type Route, route } from "../route.ts";
import { MOST_ENTRIES, ParentList } from "../schema.ts";

const ParentQuery = z.strictObject({
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(MOST_ENTRIES)
    .default(20)
    .describe("Most parents, at most 100; default 20."),
  after: z
    .string()
    .regex(/^\d{1,9}$/, "a cursor of an earlier answer, or 0")
    .default("0")
    .describe("A cursor of an earlier answer; default: from the last active one."),
});

/** The rows. */
export const parentRoutes: readonly Route[] = [
  route({
    method: "get",
    path: "/v1/parents",
    id: "listParents",
    tag: "parents",
    says: "Every parent that has spawned, the last active first, with its live agents, its unacked replies and its day.",
    scope: "read",
    query: ParentQuery,
    answers: { 200: { says: "The parents.", schema: ParentList } },
    async handle({ open, principal: { tenant }, query: { limit, after } }) {
      const { parents, next } = await readParentPage(await open(), tenant, Number(after), limit);
      return { status: 200, body: { parents, ...(next !== undefined && { cursor: String(next) }) } };
    },
  }),
];
