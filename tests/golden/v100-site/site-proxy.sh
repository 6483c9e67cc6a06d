#!/bin/sh
# provisioner 0.1.0, docker/site-proxy.sh.j2, lock sha256:5edc721ed52202e94df55b29630ab7b15a5ccd86e2fb8ec0f869b2d403fbf938
# Read by the steps of a build that use the network; the image does not keep it.
export http_proxy=http://proxy.example:3128
export HTTP_PROXY=http://proxy.example:3128
export https_proxy=http://proxy.example:3128
export HTTPS_PROXY=http://proxy.example:3128
export no_proxy=mirror.example,.example.org
export NO_PROXY=mirror.example,.example.org
