#!/usr/bin/env bash
# Host set-up for ubuntu24.04: container-toolkit. Made by provisioner 0.1.0; make it again rather than edit it.
# playbook: container-toolkit, SHA-256 9437dd8f54fa8bde610e0c525ae882dc6f345af8b3c0186397633d105dfbcb5e
# goal: toolkit=1.17.8 repository=https://nvidia.github.io/libnvidia-container/stable/deb
set -euo pipefail
export LC_ALL=C
umask 022

readonly made_for=ubuntu24.04 count=7
dry_run=no missing=no step='' undo='' number=0 changed=0 kept=0

usage() {
  printf 'usage: %s [--dry-run] [--help]\n\n' "${0##*/}"
  cat <<'END'
Host set-up for ubuntu24.04: Docker can hand NVIDIA GPUs to containers only through the container
toolkit.

Run it as root. A step that is done already is left out, so it may run again at any time.

  --dry-run  say what each step would do, and change nothing
  --help     this text

Steps:
  certificates
  signing-key
  repository
  packages
  docker-runtime
  docker-restart (restarts docker (running containers stop unless live-restore is on))
  cdi

Ends with 0: done; 1: a step failed or something is missing; 2: wrong arguments.
END
}

say() { printf '%s\n' "$@"; }

# refuse TEXT...: stops before anything was changed.
refuse() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# one_of TEXT WORD...: whether TEXT is one of the words.
one_of() {
  local text=$1 word
  shift
  for word in "$@"; do
    [[ $text == "$word" ]] && return 0
  done
  return 1
}

# within VERSION SIGN BOUND: compares two versions; what is no version is within nothing.
within() {
  [[ $1 =~ ^[0-9] ]] || return 1
  local first
  first=$(printf '%s\n%s\n' "$1" "$3" | sort -V | sed -n 1p)
  case $2 in
    '>=') [[ $first == "$3" ]] ;;
    '<=') [[ $first == "$1" ]] ;;
    '>') [[ $1 != "$3" && $first == "$3" ]] ;;
    '<') [[ $1 != "$3" && $first == "$1" ]] ;;
    '==') [[ $1 == "$3" ]] ;;
    '!=') [[ $1 != "$3" ]] ;;
  esac
}

# unmet WHAT ACTUAL WANTED REMEDY: notes that this machine lacks something.
unmet() {
  missing=yes
  printf 'NOT MET: %s is %s, and %s is needed\n         what to do: %s\n' "$1" "$2" "$3" "$4" >&2
}

# begin ID WHY UNDO: announces a step.
begin() {
  step=$1
  undo=$3
  number=$((number + 1))
  printf '\n[%s/%s] %s\n      why: %s\n' "$number" "$count" "$1" "$2"
}

# holds COMMAND...: whether a read-only check ends with 0.
holds() { "$@" </dev/null >/dev/null 2>&1; }

already() {
  kept=$((kept + 1))
  say "      already so"
}

# would ACTION RESTARTS: what the step would do.
would() {
  say "      would do: $1"
  [[ -z $2 ]] || say "      restarts: $2"
  say "      way back: $undo"
}

# stop REASON...: ends a step that failed.
stop() {
  {
    printf '\n%s: the step %s failed: %s\n' "${0##*/}" "$step" "$*"
    printf 'What to do: see the lines above, put it right, and run this script again; what is done already is left out.\n'
    printf 'To undo this step: %s\n' "$undo"
  } >&2
  exit 1
}

# attempt COMMAND...: runs it, or ends the step.
attempt() {
  local code=0
  "$@" || code=$?
  ((code == 0)) || stop "$1 ended with code $code"
}

# confirm COMMAND...: the check after a step.
confirm() {
  holds "$@" || stop "it ran, and its check does not hold afterwards: $*"
  changed=$((changed + 1))
  say "      done"
}

# write_file PATH MODE: writes standard input to a file, whole or not at all.
write_file() (
  umask 022 &&
    mkdir -p -- "${1%/*}" &&
    umask 077 &&
    rm -f -- "$1.new" &&
    cat >"$1.new" &&
    chmod -- "$2" "$1.new" &&
    mv -f -- "$1.new" "$1"
)

# keep_file PATH COPY: keeps the file as it is now, once.
keep_file() (
  test -e "$2" || test -e "$2.absent" ||
    { umask 077 && mkdir -p -- "${2%/*}" &&
      if test -e "$1"; then cp -p -- "$1" "$2.new" && mv -f -- "$2.new" "$2"; else : >"$2.absent"; fi; }
)

# What this machine is.
ask() {
  fact_driver=$(if [ -r /sys/module/nvidia/version ]; then cat /sys/module/nvidia/version; else echo none; fi)
  fact_engine=$(docker version --format '{{.Server.Version}}' 2>/dev/null | grep . || echo none)
  fact_machine=$(uname -m)
  fact_rootless=$(if docker info --format '{{.SecurityOptions}}' 2>/dev/null | grep -q rootless; then echo true; else echo false; fi)
}

# The proxies of the site.
use_proxies() {
  export http_proxy=http://proxy.example:3128
  export https_proxy="${SITE_PROXY:?holds the https proxy of the site; set it, and start with sudo --preserve-env=SITE_PROXY}"
  export no_proxy=localhost,.example
}

# What must be there already.
needs() {
  { one_of "${fact_machine}" x86_64 aarch64; } ||
    unmet machine "${fact_machine}" 'one of x86_64, aarch64' 'use a host with such a processor'
  { within "${fact_engine}" '>=' 19.03; } ||
    unmet 'container engine' "${fact_engine}" '>=19.03' "install Docker Engine first (docs.docker.com/engine/install) and start it; \`docker version\` must name a server"
  { one_of "${fact_rootless}" false; } ||
    unmet 'rootless engine' "${fact_rootless}" false "this playbook configures the engine of the system; a rootless one is configured by its user, see the rootless section of the container toolkit's installation guide"
  { within "${fact_driver}" '>=' 418.81.07; } ||
    unmet 'NVIDIA driver' "${fact_driver}" '>=418.81.07' 'install the NVIDIA driver first, and reboot where its installer says so; nvidia-smi must list the GPUs'
}

step_certificates() {
  begin certificates \
    'apt reads the repository over https and needs the certificate authorities for that.' \
    'remove ca-certificates'
  local check=(sh -c "test \"\$(dpkg-query -W -f='\${db:Status-Status}' ca-certificates)\" = installed")
  if holds "${check[@]}"; then
    already
    return
  fi
  if [[ $dry_run == yes ]]; then
    would 'fetch the package lists, install ca-certificates' ''
    return
  fi
  attempt apt-get update
  attempt env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l apt-get install --yes --no-install-recommends --allow-downgrades -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold ca-certificates
  confirm "${check[@]}"
}

step_signing_key() {
  begin signing-key \
    'apt takes packages of this repository only when this key signed them. The key (fingerprint C95B 321B 61E8 8C18 09C4 F759 DDCA E044 F796 ECB0) is part of the playbook, so nothing is trusted because of where it was downloaded; it counts for this repository alone.' \
    'put /usr/share/keyrings/nvidia-container-toolkit-keyring.asc back as it was (/var/backups/provisioner/container-toolkit/usr/share/keyrings/nvidia-container-toolkit-keyring.asc; remove it where that does not exist)'
  local check=(sh -c "test \"\$(sha256sum <\"\$1\")\" = \"\$2  -\" && test \"\$(stat -c %a -- \"\$1\")\" = \"\$3\"" sh /usr/share/keyrings/nvidia-container-toolkit-keyring.asc c880576d6cf75a48e5027a871bac70fd0421ab07d2b55f30877b21f1c87959c9 644)
  if holds "${check[@]}"; then
    already
    return
  fi
  if [[ $dry_run == yes ]]; then
    would 'write /usr/share/keyrings/nvidia-container-toolkit-keyring.asc (3195 bytes, mode 0644)' ''
    return
  fi
  attempt keep_file /usr/share/keyrings/nvidia-container-toolkit-keyring.asc /var/backups/provisioner/container-toolkit/usr/share/keyrings/nvidia-container-toolkit-keyring.asc
  attempt write_file /usr/share/keyrings/nvidia-container-toolkit-keyring.asc 0644 <<'END_OF_FILE'
-----BEGIN PGP PUBLIC KEY BLOCK-----

mQINBFnNWDEBEACiX68rxIWvqH3h2GykO25oK9BAqV8fDtb6lXEbw3eKx4g87BRz
M3DQBA0S0IfkQ72ovJ33H50+gVTXuu+Zme5muWk72m3pApccZVDLqdzYlpWPruNb
MC+IlWr70yo8Jw8Zr1ihbWjFvMbDJTkgqPt2djNq3xxvdiKoZlgnpLRKIpSu9iBQ
lNoZLHxTQKFH4219L77prRogv2QV1ckBL5lDVOERJuHo4jHE8mm9/NZ6v3m2HGuu
AEZ7T9nWlPGiAIP8Pww4ZRTJcBANcI2EFKPLdfP61HTH6w0kVMkoAaGlemadTDl3
ZcLpUpTFLc+ko/2uQ1qVPx9QYyoMrorS3kUmlXrhsA7FvcB09aIcb+JX6SVkcbO5
A5+baCa3owwUtFBXMHM5hqpLv4P3/GsuW6283YwLZCf53dJY4lJZePqzPGsvs/wS
vhnZrFvb61i/Aqm0hjhVh7h6VNxUiE8geMcjxy29LtzajoyS0EPVxes4xZu0VbS7
8LQyCNHSpS7TFmtVUQmbXqDN7cpiyr9+yutr0lZOMc7NYQt0nP/3RtYkWEob6wXa
rVImHas1OYzlZymdO1uAnqkediS61E2vSD1OEq37/375FB/Q3AYXuNkQzDjYoJJz
9wsv7Xp0bdPzQ/daLdIFNQXo5MmVIirsWM07JvbZaJhDOiJxGn0MPf11/QARAQAB
tEBOVklESUEgQ09SUE9SQVRJT04gKE9wZW4gU291cmNlIFByb2plY3RzKSA8Y3Vk
YXRvb2xzQG52aWRpYS5jb20+iQI4BBMBCgAiBQJZzVgxAhsPBgsJCggHAwUVCgkI
CwUWAgMBAAIeAQIXgAAKCRDdyuBE95bssAh6EACgUCww2sr8sOztEHKhvdCsonXu
THYbel3YlWmVDPbh4dA31xoRXlvSJptJzPi/zlTc9fkVSFGbEZbFRR4JjnwYTMLD
ElMh5YRMYAoPVYhWGKIO4earu32GhFuPjfr6h+0xNaQeDPIbr7bPe/AEhLSdJMzI
OuAifr7UaC65A6YlxfeaSqyt0HthYujoQ12cWxP998C5jkc0IN2tyLs/OD7HLHht
+lafqDSylykx63cw7jvsV/15rqZwVwjhkcxZyrKET32MTjXF3cxn7+TGpKS8B1k4
a/EI7uXnncfSoma0dAT9bZM9JZbXQmSzCPDHHuVtnQ/3uh8VyenpigTFnrb20LCy
6WzJd3O9lAZXLhvwF/By3a07WLzRtTZNaUpt37Anb0js2syr3lohbmK9i3xvuqZN
zhGPbqu9IV+vFgSGyTHRJUSBlHKDGiCdOOHc20MLPW1yRCXbx0F4eS9TWchYyJkJ
NNczD5DnEl/gsvL4NCRxa+oUyUhhJ1HpJ6YNmTsy6nAAKIC+6248o164GiavaR3z
03RfaQayGHAUrBKi+PJBY7efgsZeYT8f+hyYrIC04MO8poBKS/GvSUL2QtVtj59N
q+95gIptW2mZM8KRpt2huLH+QQ8SKr1vAECbpKJOwseqKmVyxX02iaSE8ifLE+tX
FE8YgS3CZjWwy5PD0LkBDQRdgpCQAQgAx1oxX9tFlv3CIva0CJ0dsZyNF7mgHPgN
szccUYLu0chyWYvwiVU/OlCzivytNX56wgeBgIVV1QzeBuTkrJSgzJ+dSgfrmyg5
RwIDhvH+Dcut0++6+di1LyH9gXQcYPrN3pf4yR8nlRbm6K0Vsp0Z4+br18QelURe
rfAkRordag26aB+MzVLvloHHu3Z6/v321uTGMdFd8CVCjovec5+EdcIAam3U/MmZ
e2mr2M/x6F3st30cE7umq9Bb6UCqc6L8bQcoloxR3rwFzL1u9wUBUzQlaMNmxbe0
BfezkmSQeC8JN4Fku+DtHEpS9uP5JEYNEEQ66K4mJDTMr0whBv1fKQARAQABiQNb
BBgBCgAmAhsCFiEEyVsyG2HojBgJxPdZ3crgRPeW7LAFAl7oD1gFCQNGskgBKcBd
IAQZAQoABgUCXYKQkAAKCRBu2RyjrBFgzZ/WB/9TuD2qzaBO7HlPDWRUTpFlvFgy
Dc3XyfTAC/ISeYbIcPcq5kmVHgpsMdbN9Vvmot5GuT7VWzhHc9sJCmHgL330glBt
NtSRflKzlBYnbiSWxLFYZtu2BtNOk8Ylbw8qw1E6W/iFBrqAwgeZvs2VOcPU3203
Mqfi1JbS+YHC/bgs6cNq0zs/WJraYxiuleclKYExxLt9tRd0058n58GAph+Ki7mR
InO6kxuKpsQannSn1Ku/DiaQcSF2L2TMSo0N9zwvYEZR+hgsKVqyRKT+DkZhusHJ
HYGv96YHSTwo016ZhwYS9t0MLXY9/PgJysuO41Ya4Ii43D3UK1wOHTmyHZHTCRDd
yuBE95bssDpwD/4jV9Pin3vAKa4hhn5GD4e478FNKRD58Q7qF3AhVTBNPIl1m4EF
X7sqI6cXUDG4BjpS70ZRWF2x51ZTiq7DLTV/gGw2okfVjoWjzQY0ebrLd4IoNs80
lIHmXxa+JdwB6WupCUzKCKLcPsX/yPAmswPNGAuIMAv+PWhUUSMVtzOZldnlogGM
hbJ9UD2txFGGh9WoYc2vgX9KAaKryXcC6QMabv7JJU24HEJJDgbJEvtFM5PS8QMF
bXIZsYgICWpQXVChBbduXo9sD2TUDWYAniNaaw4LKxPRG+Ix4HAqkh1oNOLojO30
DO3r1/62FKE5/ykg3iSMTDR0iOES/leXCCIO9fRJT8+eucxyOQoY5ti7tjt1wm3H
nTB+Rz3E/E2qeLs2PN82aseccm1G06pmsMCUiWtmSV6HjdO2XufYprrGLSu0RrT3
sz5WHGUOY2iO40xHhSiXg3TcLZRpv30DQzxoUrx9Ff//rXLFznh+MksuvVD2roUR
BGz/en31FxAcBoex9nNraeOekbFen5b7Xrq9wnzM5xZvJN2QYB3vS0khz/ZgFyy5
444ALa9gwb29FZCfA4m59S2QoB8uPQGM+8gnusE6J8y4fvI59ugafidIkt86dZ3m
FsEME5XNmBGdNEo2flRVFfpG1IWds2Ba3IsdbYd9nzmbBW7/n0InVRDrIg==
=9QWY
-----END PGP PUBLIC KEY BLOCK-----
END_OF_FILE
  confirm "${check[@]}"
}

step_repository() {
  begin repository \
    "The distributions do not carry the container toolkit; it comes from NVIDIA's repository, tied to the key above." \
    'put /etc/apt/sources.list.d/nvidia-container-toolkit.list back as it was (/var/backups/provisioner/container-toolkit/etc/apt/sources.list.d/nvidia-container-toolkit.list; remove it where that does not exist)'
  local check=(sh -c "test \"\$(sha256sum <\"\$1\")\" = \"\$2  -\" && test \"\$(stat -c %a -- \"\$1\")\" = \"\$3\"" sh /etc/apt/sources.list.d/nvidia-container-toolkit.list d2b5fd7ce4dbdda0902359f1ba77381b0e4c0e61ee43dbc35d611023c8f0c11e 644)
  if holds "${check[@]}"; then
    already
    return
  fi
  if [[ $dry_run == yes ]]; then
    would 'write /etc/apt/sources.list.d/nvidia-container-toolkit.list (139 bytes, mode 0644)' ''
    return
  fi
  attempt keep_file /etc/apt/sources.list.d/nvidia-container-toolkit.list /var/backups/provisioner/container-toolkit/etc/apt/sources.list.d/nvidia-container-toolkit.list
  attempt write_file /etc/apt/sources.list.d/nvidia-container-toolkit.list 0644 <<'END_OF_FILE'
deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.asc] https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /
END_OF_FILE
  confirm "${check[@]}"
}

step_packages() {
  begin packages \
    'The four packages belong together and must have one version; naming it keeps every host of a group equal.' \
    'remove nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1'
  local check=(sh -c "for package do test \"\$(dpkg-query -W -f='\${db:Status-Status} \${Version}' \"\${package%%=*}\")\" = \"installed \${package#*=}\" || exit 1; done" sh nvidia-container-toolkit=1.17.8-1 nvidia-container-toolkit-base=1.17.8-1 libnvidia-container-tools=1.17.8-1 libnvidia-container1=1.17.8-1)
  if holds "${check[@]}"; then
    already
    return
  fi
  if [[ $dry_run == yes ]]; then
    would 'fetch the package lists, install nvidia-container-toolkit=1.17.8-1 nvidia-container-toolkit-base=1.17.8-1 libnvidia-container-tools=1.17.8-1 libnvidia-container1=1.17.8-1' ''
    return
  fi
  attempt apt-get update
  attempt env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l apt-get install --yes --no-install-recommends --allow-downgrades -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold nvidia-container-toolkit=1.17.8-1 nvidia-container-toolkit-base=1.17.8-1 libnvidia-container-tools=1.17.8-1 libnvidia-container1=1.17.8-1
  confirm "${check[@]}"
}

step_docker_runtime() {
  begin docker-runtime \
    'Docker learns of the runtime that puts GPUs into containers; the other settings in its file stay.' \
    'put /etc/docker/daemon.json back as it was (/var/backups/provisioner/container-toolkit/etc/docker/daemon.json; remove it where that does not exist), then restart docker'
  local check=(grep -qs nvidia-container-runtime /etc/docker/daemon.json)
  if holds "${check[@]}"; then
    already
    return
  fi
  if [[ $dry_run == yes ]]; then
    would 'nvidia-ctk runtime configure --runtime=docker' ''
    return
  fi
  attempt keep_file /etc/docker/daemon.json /var/backups/provisioner/container-toolkit/etc/docker/daemon.json
  attempt nvidia-ctk runtime configure --runtime=docker
  confirm "${check[@]}"
}

step_docker_restart() {
  begin docker-restart \
    'Docker reads its settings when it starts.' \
    'nothing to undo'
  local check=(sh -c "docker info --format '{{json .Runtimes}}' | grep -q nvidia")
  if holds "${check[@]}"; then
    already
    return
  fi
  if [[ $dry_run == yes ]]; then
    would 'restart docker' 'docker (running containers stop unless live-restore is on)'
    return
  fi
  attempt systemctl restart docker
  confirm "${check[@]}"
}

step_cdi() {
  begin cdi \
    'Engines that name GPUs by CDI (nvidia.com/gpu=all) read this list of devices. It names the libraries of the driver that is loaded, so it is written again when it does not.' \
    'rm -f /etc/cdi/nvidia.yaml'
  local check=(sh -c "version=\$(cat /sys/module/nvidia/version) && nvidia-ctk cdi list 2>/dev/null | grep -q \"^nvidia\\.com/gpu=\" && grep -qsrF \".so.\$version\" /var/run/cdi /etc/cdi")
  if holds "${check[@]}"; then
    already
    return
  fi
  if [[ $dry_run == yes ]]; then
    would 'nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml' ''
    return
  fi
  attempt nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
  confirm "${check[@]}"
}

main() {
  local argument system
  for argument in "$@"; do
    case $argument in
      --dry-run) dry_run=yes ;;
      --help | -h)
        usage
        exit 0
        ;;
      *)
        usage >&2
        exit 2
        ;;
    esac
  done
  # shellcheck source=/dev/null
  system=$(. /etc/os-release && printf '%s' "${ID:-}${VERSION_ID:-}") || refuse "this machine has no /etc/os-release"
  [[ $system == "$made_for" || $system == "$made_for".* ]] ||
    refuse "this script was made for $made_for, and this is $system; make one for it: provisioner export shell --os $system"
  if [[ $dry_run == yes ]]; then
    say "Dry run: nothing is changed."
    ((EUID == 0)) || say "Not root: what only root may read counts as not done."
  elif ((EUID != 0)); then
    refuse "run it as root: sudo bash $0"
  fi
  ask
  needs
  [[ $missing == no || $dry_run == yes ]] || refuse "something is missing, see above; nothing was changed"
  [[ $dry_run == yes ]] || use_proxies
  step_certificates
  step_signing_key
  step_repository
  step_packages
  step_docker_runtime
  step_docker_restart
  step_cdi
  if [[ $dry_run == yes ]]; then
    say "" "Nothing was changed. Done already: $kept of $count steps."
    [[ $missing == no ]] || refuse "something is missing, see NOT MET above; without --dry-run nothing would be done"
  else
    say "" "Done: changed by $changed of $count steps, $kept were done already."
  fi
}

main "$@"
