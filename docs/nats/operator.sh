#!/bin/sh
# Creates with nsc the accounts and permissions of server.conf, for NATS servers in operator mode. Remove the first nsc
# command if an operator with a system account exists. Servers include resolver.conf, which the last command writes. The
# .creds files are for daemons (stream.credentials), producers and observers.
set -eu

nsc add operator --name loaderd --sys

nsc add account --name LOADERD
nsc add account --name PRODUCERS
nsc add account --name OBSERVERS
nsc edit account --name LOADERD --js-disk-storage -1 --js-mem-storage -1 --js-streams -1 --js-consumer -1

# offer exports a service of LOADERD to accounts with an activation. share activates it for an account.
offer() { # subject, kind of response
    nsc add export --account LOADERD --name "$1" --service --subject "$1" --response-type "$2" --private
}
share() { # account, subject
    nsc generate activation --account LOADERD --service --subject "$2" --target-account "$1" --output-file activation.jwt
    nsc add import --account "$1" --name "$2" --token activation.jwt
    rm activation.jwt
}

offer 'docs.>' Singleton
offer '$KV.loaderd_publish.>' Singleton
offer '$JS.API.INFO' Singleton
offer '$JS.API.STREAM.NAMES' Singleton
offer '$JS.API.STREAM.LIST' Singleton
offer '$JS.API.STREAM.INFO.*' Singleton
offer '$JS.API.STREAM.MSG.GET.*' Singleton
offer '$JS.API.DIRECT.GET.>' Stream
offer 'loaderd.alive.*' Singleton

share PRODUCERS 'docs.>'
share PRODUCERS '$KV.loaderd_publish.>'
share PRODUCERS '$JS.API.INFO'
share PRODUCERS '$JS.API.STREAM.NAMES'
share PRODUCERS '$JS.API.STREAM.INFO.DOCS'
share PRODUCERS '$JS.API.STREAM.INFO.KV_loaderd_publish'
share PRODUCERS '$JS.API.STREAM.MSG.GET.DOCS'
share PRODUCERS '$JS.API.DIRECT.GET.DOCS'
share PRODUCERS '$JS.API.DIRECT.GET.DOCS.>'
share PRODUCERS '$JS.API.DIRECT.GET.KV_loaderd_publish'
share PRODUCERS '$JS.API.DIRECT.GET.KV_loaderd_publish.>'
share PRODUCERS '$JS.API.STREAM.MSG.GET.KV_loaderd_readers'
share PRODUCERS '$JS.API.DIRECT.GET.KV_loaderd_readers.>'

share OBSERVERS '$JS.API.INFO'
share OBSERVERS '$JS.API.STREAM.LIST'
share OBSERVERS '$JS.API.STREAM.INFO.*'
share OBSERVERS '$JS.API.STREAM.MSG.GET.*'
share OBSERVERS '$JS.API.DIRECT.GET.>'
share OBSERVERS 'loaderd.alive.*'

nsc add user --account LOADERD --name daemon
nsc add user --account PRODUCERS --name producer
nsc add user --account OBSERVERS --name observer
umask 077
nsc generate creds --account LOADERD --name daemon > daemon.creds
nsc generate creds --account PRODUCERS --name producer > producer.creds
nsc generate creds --account OBSERVERS --name observer > observer.creds

nsc generate config --mem-resolver --config-file resolver.conf
