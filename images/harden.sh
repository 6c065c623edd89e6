#!/bin/sh
# Removes from the file system of an image what its pods do not need: harden.sh ROOT [keep-shell]
#
# Package managers, interpreters other than Python, programs that change accounts or mounts,
# compilers, pip, caches; no file keeps a setuid or setgid bit. Without `keep-shell` all programs of
# the system go, shells too, but for Python: nothing can be run but what the image was made for. The list of
# installed packages stays, for scanners.
set -eu
root="${1%/}"
keep="${2:-}"

find "${root}/" -xdev -type f \( -perm -4000 -o -perm -2000 \) -exec chmod a-s {} +

for folder in bin sbin usr/bin usr/sbin usr/local/bin usr/local/sbin; do
  for name in apt apt-\* dpkg dpkg-\* deb-\* debconf\* update-alternatives \
    perl perl5\* cpan\* pip pip3\* pip[0-9]\* idle\* pydoc\* 2to3\* ensurepip \
    gcc gcc-\* g++\* cc c++ cpp\* ld ld.\* as make gdb python3-config python3.\*-config \
    su sudo newgrp chsh chfn chage gpasswd passwd expiry login sulogin useradd usermod userdel \
    groupadd groupmod groupdel adduser addgroup deluser delgroup vipw vigr chpasswd \
    mount umount losetup mkfs\* fsck\* mkswap swapon swapoff pivot_root switch_root unshare nsenter \
    chroot setpriv debootstrap; do
    for path in "${root}/${folder}"/${name}; do
      if [ -e "${path}" ] || [ -L "${path}" ]; then rm -f -- "${path}"; fi
    done
  done
done

rm -rf "${root}"/usr/lib/apt "${root}"/etc/apt "${root}"/var/lib/apt "${root}"/usr/lib/dpkg \
  "${root}"/var/lib/dpkg/info "${root}"/usr/share/perl* "${root}"/usr/lib/*/perl* \
  "${root}"/usr/lib/python3*/ensurepip "${root}"/usr/local/lib/python3*/ensurepip \
  "${root}"/usr/lib/python3/dist-packages/pip* "${root}"/usr/share/python-wheels \
  "${root}"/usr/local/lib/python3*/site-packages/pip* \
  "${root}"/usr/local/lib/python3*/site-packages/setuptools* \
  "${root}"/var/cache/* "${root}"/var/log/* "${root}"/tmp/harden.sh
# Caches of users. A builder may mount its own there: they stay.
for cache in "${root}"/*/.cache; do
  if [ -d "${cache}" ]; then find "${cache}" -xdev -type f -delete; fi
done

if [ "${keep}" != keep-shell ]; then
  set --
  for folder in bin sbin usr/bin usr/sbin usr/local/bin usr/local/sbin; do
    if [ -d "${root}/${folder}" ] && [ ! -L "${root}/${folder}" ]; then
      set -- "$@" "${root}/${folder}"
    fi
  done
  # All programs but Python's. The shell that reads this, and find, are in memory.
  find "$@" -xdev \( -type f -o -type l \) -not -name "python3*" -not -name python -delete
fi
