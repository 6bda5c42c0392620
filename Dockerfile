# One static binary on an empty image, run by a user without rights.
#   docker build --build-arg VERSION=$(git describe --tags --always) -t hotparam/pipeline .
#   docker run hotparam/pipeline collector|aggregator|limiter-sidecar|serve|check|... --help
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ENV GOCACHE=/cache
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=devel TARGETOS TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache mkdir /state && \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -o /out/ \
    -ldflags "-s -w -X github.com/hotparam/pipeline/internal/app/config.release=$VERSION" ./cmd/hotparam

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/hotparam /
COPY --from=build --chown=65532:65532 /state /state
USER 65532:65532
WORKDIR /state
ENTRYPOINT ["/hotparam"]
CMD ["--help"]
