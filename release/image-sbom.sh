#!/usr/bin/env bash
# Prints the CycloneDX bill of materials of the image: release/image-sbom.sh LAYOUT PROGRAM-BILL…
# The image contains the program, what is linked into it, and the root certificates of this machine's package ca-certificates.
set -euo pipefail
layout=$1
shift
digest=$(jq -r '.manifests[0].digest' "$layout/index.json")
certificates=$(dpkg-query --show --showformat '${Version}' ca-certificates)
# What the programs of both architectures have in common is listed once.
jq --slurp --sort-keys --arg digest "$digest" --arg certificates "$certificates" '
	(.[0].metadata.component.version) as $version
	| ("pkg:oci/mullion@" + ($digest | sub(":"; "%3A")) + "?tag=" + $version) as $image
	| ("pkg:deb/debian/ca-certificates@" + $certificates + "?arch=all") as $ca
	| ([.[].metadata.component | del(.components)] | unique_by(."bom-ref")) as $programs
	| {
		bomFormat: .[0].bomFormat, specVersion: .[0].specVersion, version: 1,
		metadata: ({component: {type: "container", "bom-ref": $image, name: "mullion", version: $version, purl: $image,
			hashes: [{alg: "SHA-256", content: ($digest | sub("^sha256:"; ""))}]}} + (.[0].metadata | {timestamp, tools} | with_entries(select(.value)))),
		components: ($programs + ([.[].components[]] | unique_by(."bom-ref")) + [{type: "data", "bom-ref": $ca, name: "ca-certificates",
			version: $certificates, purl: $ca, licenses: [{license: {id: "MPL-2.0"}}]}]),
		dependencies: ([{ref: $image, dependsOn: ([$programs[]."bom-ref"] + [$ca])}]
			+ ([.[].dependencies[]] | group_by(.ref) | map({ref: .[0].ref, dependsOn: ([.[].dependsOn[]?] | unique)})))
	}' "$@"
