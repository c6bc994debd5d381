# The worker and `weir`, on NVIDIA GPUs, in a root without anything else (scripts/image_root.sh).
#
#     docker build --build-context cuda=/usr/local/cuda -f docker/worker-cuda.Dockerfile -t weir-worker-cuda .   # the toolkit of this machine
#     docker run --gpus all --read-only --cap-drop ALL --security-opt no-new-privileges -v weir:/var/lib/weir -v ./job.yaml:/etc/weir/job.yaml:ro weir-worker-cuda --job /etc/weir/job.yaml ...
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
ARG CUDA_ARCHITECTURES="75;80;86;89;90"
# Builds the programs: a layer that the other images share.
RUN --mount=type=bind,from=cuda,target=/usr/local/cuda make bundle
ARG SOURCE_DATE_EPOCH=0
RUN --mount=type=bind,from=cuda,target=/usr/local/cuda scripts/image_root.sh worker-cuda /image

FROM scratch
COPY --from=build /image/ /
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Weir's worker, on NVIDIA GPUs" \
	org.opencontainers.image.version="${VERSION}" \
	org.opencontainers.image.revision="${REVISION}" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.vendor="Weir"
ENV PATH=/bin NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
WORKDIR /var/lib/weir
STOPSIGNAL SIGTERM
ENTRYPOINT ["/bin/weir-worker"]
