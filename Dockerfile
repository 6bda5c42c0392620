# Static binaries on an empty image, run by a user without rights.
# One image holds the four programs; choose one by its entrypoint:
#   docker run IMAGE /hotparam version
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/hotparam/pipeline/internal/app/config.release=$VERSION" -o /out/ \
    ./cmd/collector ./cmd/aggregator ./cmd/limiter-sidecar ./cmd/hotparam && mkdir /state

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/ /
COPY --from=build --chown=65532:65532 /state /state
USER 65532:65532
WORKDIR /state
ENTRYPOINT ["/hotparam"]
CMD ["--help"]
