# The parameter server and `weir`, in a root without anything else (scripts/image_root.sh).
#
#     docker build -f docker/server.Dockerfile -t weir-server .          # `make image` builds all three without Docker
#     docker run --read-only --cap-drop ALL --security-opt no-new-privileges -v weir:/var/lib/weir -v ./job.yaml:/etc/weir/job.yaml:ro weir-server --job /etc/weir/job.yaml ...
ARG BASE=debian:12
FROM ${BASE} AS build
WORKDIR /src
COPY packages.txt .
COPY scripts/packages.sh scripts/
RUN scripts/packages.sh run image
COPY . .
RUN make bundle
ARG SOURCE_DATE_EPOCH=0
RUN scripts/image_root.sh server /image

FROM scratch
COPY --from=build /image/ /
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Weir's parameter server" \
	org.opencontainers.image.version="${VERSION}" \
	org.opencontainers.image.revision="${REVISION}" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.vendor="Weir"
ENV PATH=/bin
USER 10001:10001
WORKDIR /var/lib/weir
EXPOSE 7700
STOPSIGNAL SIGTERM
ENTRYPOINT ["/bin/weir-server"]
