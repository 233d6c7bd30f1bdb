/**
 * Sets the seed of the property tests. Every run tries the same cases, so that results are reproducible. `FC_SEED=random`,
 * which `npm run test:nightly` sets, tries other cases each time. A failure prints its seed.
 */
import fc from "fast-check";

const USUAL_SEED = 20_260_101;
const { FC_SEED: wanted = USUAL_SEED } = process.env;

fc.configureGlobal({ seed: wanted === "random" ? Date.now() % 2 ** 31 : Number(wanted) });
