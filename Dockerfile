# One image for every service: the verb says which (`worker` unless told otherwise). See docker-compose.yml.
ARG NODE_IMAGE=node:24-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
# Dependencies first: this layer stays until the lock file changes. No dependency needs an install script.
COPY package.json package-lock.json .npmrc ./
RUN npm ci --include=dev --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts/build.mjs scripts/
COPY src src
# `optional` goes as well: the compiler counts as an optional peer of a dependency and would stay.
# Without `devDependencies` the peers are kept: for building they stand among them.
RUN npm run build && npm pkg delete devDependencies && npm prune --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM ${NODE_IMAGE}
# A named volume takes its owner from the directory it covers.
RUN install -d -o node -g node /workspaces
WORKDIR /app
COPY LICENSE package.json ./
COPY web web
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
ENV NODE_ENV=production
ENV SUBAGENT_WORKSPACES=/workspaces
USER node
# A worker hands its runs back and ends within 25 s: give it 30 before the kill.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/app/dist/cli/main.js"]
CMD ["worker"]
