# The worker and `weir`, on CPUs, in a root without anything else (scripts/image_root.sh).
#
#     docker build -f docker/worker-cpu.Dockerfile -t weir-worker-cpu .          # `make image` builds all three without Docker
#     docker run --read-only --cap-drop ALL --security-opt no-new-privileges -v weir:/var/lib/weir -v ./job.yaml:/etc/weir/job.yaml:ro weir-worker-cpu --job /etc/weir/job.yaml ...
ARG BASE=debian:12
# A build context `wheels` with pyarrow's wheel takes its place where PyPI cannot be reached.
FROM scratch AS wheels
FROM ${BASE} AS build
WORKDIR /src
COPY packages.txt .
COPY scripts/packages.sh scripts/
RUN scripts/packages.sh run image
COPY . .
RUN make bundle
RUN scripts/packages.sh python
# With the plug-in for Parquet and Arrow.
RUN --mount=type=bind,from=wheels,target=/wheels WHEELS=/wheels make arrow bundle
ARG SOURCE_DATE_EPOCH=0
RUN scripts/image_root.sh worker-cpu /image

FROM scratch
COPY --from=build /image/ /
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Weir's worker, on CPUs" \
	org.opencontainers.image.version="${VERSION}" \
	org.opencontainers.image.revision="${REVISION}" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.vendor="Weir"
ENV PATH=/bin
USER 10001:10001
WORKDIR /var/lib/weir
STOPSIGNAL SIGTERM
ENTRYPOINT ["/bin/weir-worker"]
