# What users do with Ceph's `rbd`, and what it says: run on two clusters, this prints the same.

set -u

# What differs from run to run: what the library logs, ids, times, addresses, and how far something is.
same() {
    tr '\r' '\n' | sed -E \
        -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.+]+ [0-9a-f]+ +-1 .*$//' \
        -e '/[0-9]+% complete\.\.\.$/d' \
        -e 's/[0-9]+ *% complete/N% complete/g' \
        -e 's/[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]+ [0-9:]{8} [0-9]{4}/TIME/g' \
        -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]+[+0-9]*/TIME/g' \
        -e 's/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/UUID/g' \
        -e 's/[0-9.]+:[0-9]+\/[0-9]+/ADDRESS/g' \
        -e 's/client\.[0-9]+/CLIENT/g' \
        -e 's/cookie=[0-9]+/COOKIE/g' \
        -e "s/\\b$ID\\b/ID/g" \
        -e "s/\\.group\\.([0-9]+)_${ID}_$ID/.group.\\1_ID_ID/g" \
        -e "s/rbd_data\\.([0-9]+\\.)?$ID/rbd_data.\\1ID/g" \
        -e 's/\<rb\.0\.[0-9a-f]+\.[0-9a-f]+/rb.0.IDS/g' \
        -e 's/ +/ /g' -e 's/ +$//' -e '/^$/d' \
        -e 's/^ [0-9]+ / SNAP /' -e 's/\{"id":[0-9]+,/{"id":SNAP,/g'
}

# Ids of images and groups are hexadecimal numbers from 10 digits on.
ID='[0-9a-f]{10,}'

r() {
    echo "$ rbd $*" | same
    rbd "$@" > said 2> errors
    code=$?
    same < said
    # In one line: the library logs wherever another thread is in one of its own, before a colon and between a number and its unit, too.
    error=$(same < errors | tr -s '\n ' ' ' | sed -E -e 's/ +([:.])/\1/g' -e 's/[0-9]+ *% complete/N% complete/g')
    [ -z "$error" ] || echo "$error"
    [ $code = 0 ] || echo "exit code $code"
}

# The content of an image or a snapshot.
content() {
    echo "content of $1: $(rbd export --no-progress "$1" - 2> /dev/null | md5sum)"
}

head -c 3000000 /dev/zero | tr '\0' a > a.raw
head -c 3000000 /dev/zero | tr '\0' b > b.raw
printf secret > pass

echo '# Pools and images'
r pool init rbd
r ls
r create --size 8M one
r create --size 8M one
r create --size 8M --image-feature layering plain
r create --size 8M --object-size 1M --stripe-unit 64K --stripe-count 4 striped
r create --size 8M --data-pool data spread
r create rbd/none
r info one
r info --format json one
r info plain
r info striped
r info spread
r info missing
r ls
r ls -l
r ls -l --format json
r resize --size 16M one
r resize --size 4M one
r resize --allow-shrink --size 4M one
r rename plain simple
r rename simple one
r mv simple plain
r status one
r status --format json one
r pool stats
r cp one copied
r rm copied
r rm copied
r import --no-progress a.raw data
content data
r du data
r du --format json data
r sparsify data

echo '# Snapshots'
r snap create data@a
r snap create data@a
r import-diff --no-progress b.raw data
r bench --io-type write --io-size 4K --io-total 4K --io-threads 1 missing
rbd bench --io-type write --io-size 1M --io-total 1M --io-threads 1 data > /dev/null 2>&1
r snap create data@b
r snap ls data
r snap ls --format json data
content data@a
r diff --from-snap a data
r diff --from-snap a --whole-object data@b
r du data
r export-diff --no-progress --from-snap a data@b a-b.diff
r export-diff --no-progress data@a a.diff
r merge-diff --no-progress a.diff a-b.diff both.diff
r create --size 3000000B copied
r import-diff --no-progress a.diff copied
r import-diff --no-progress a.diff copied
r import-diff --no-progress a-b.diff copied
content copied@a
r snap ls copied
r snap rollback data@a
content data
r snap rollback data@none
r snap rename data@b data@c
r snap rename data@c data@a
r snap rename data@none data@d
r snap limit set --limit 2 data
r snap create data@d
r snap limit set --limit 1 data
r snap limit clear data
r snap protect data@a
r snap protect data@a
r snap rm data@a
r snap rm data@none
r snap purge data
r rm data
r snap unprotect data@a
r snap unprotect data@a
r snap purge data
r snap purge copied
r rm copied

echo '# Clones'
r snap create data@p
r clone data@p old --rbd-default-clone-format 1
r snap protect data@p
r clone data@p old --rbd-default-clone-format 1
r clone data@p new --rbd-default-clone-format 2
r info old
r info new
r info --format json new
r children data
r children --all data@p
r children --format json data
r snap unprotect data@p
content new
rbd bench --io-type write --io-size 64K --io-total 64K --io-threads 1 new > /dev/null 2>&1
r diff new
r du new
r resize --allow-shrink --size 1M old
r info old
r resize --size 2M old
r info old
content old
r flatten old
r flatten old
content old
r snap unprotect data@p
r snap rm data@p
r snap ls data
r snap ls --all data
r snap create new@s
r flatten new
r snap ls --all data
r info new
r snap purge new
r deep cp new deep
[ "$(content deep | cut -d: -f2)" = "$(content new | cut -d: -f2)" ] && echo 'both are the same'
r rm deep
r rm old
r rm new

echo '# The trash'
r trash mv data
r ls
r trash ls
r trash ls --all --format json
r info data
id=$(rbd trash ls | cut -d' ' -f1)
r trash restore --image back "$id"
content back
r trash mv --expires-at '2035-01-01' back
r trash rm "$id"
r trash restore "$id"
r trash mv back
r trash rm "$id"
r trash rm "$id"
r trash purge
r trash ls

echo '# Namespaces'
r namespace create inner
r namespace create inner
r namespace ls
r create --size 1M rbd/inner/image
r ls rbd/inner
r namespace rm inner
r rm rbd/inner/image
r namespace rm inner
r namespace rm inner
r namespace ls

echo '# Metadata and options'
r image-meta set one key value
r image-meta get one key
r image-meta get one none
r image-meta list one
r image-meta remove one key
r image-meta remove one key
r config image set one rbd_cache false
r config image get one rbd_cache
r config image remove one rbd_cache
r config pool set rbd rbd_cache false
r config pool get rbd rbd_cache
r config pool remove rbd rbd_cache

echo '# Locks'
r lock add one mine
r lock add one mine
r lock ls one
r lock ls --format json one
r lock add --shared tag one other
locker=$(rbd lock ls one | sed -nE 's/^(client\.[0-9]+).*/\1/p')
r lock rm one mine client.1
r lock rm one mine "$locker"
r lock ls one

echo '# Features and object maps'
r feature disable one fast-diff object-map
r info one
r feature disable one fast-diff
r feature enable one object-map
r info one
r object-map check one
r object-map rebuild one
r info one
r object-map check one
r feature disable one deep-flatten
r feature enable one deep-flatten
r feature disable one layering

echo '# Groups'
r group create g
r group create g
r group ls
r group rename g h
r group image add h one
r group image add h striped
r group image add h one
r group image ls h
r group image ls --format json h
r info one
r rm one
r group snap create h@s
r group snap create h@s
r group snap ls h
r snap ls --all one
r group snap rename h@s t
r group snap rollback h@t
r group snap rm h@t
r group snap ls h
r group image rm h striped
r group image rm h striped
r group create full
r group image add full one
r group rm h
r group rm full
r group ls
r info one

echo '# Migrations'
r migration prepare one data/moved
r status data/moved
r ls
r info data/moved
r migration commit data/moved
r migration execute data/moved
r migration commit data/moved
r ls
r ls data
r migration prepare data/moved rbd/again
r migration abort rbd/again
r migration abort rbd/again
r ls
r ls data
r rm data/moved

echo '# Imports'
r import --no-progress a.raw template
r snap create --no-progress template@base
r migration prepare --import-only template data/filled
r migration prepare --import-only --source-spec '{' data/filled
r migration prepare --import-only --source-spec '{"type": "none"}' data/filled
r migration prepare --import-only template@none data/filled
r migration prepare --import-only template@base data/filled
r ls data
r info data/filled
content data/filled
content data/filled@base
r migration commit data/filled
r migration execute data/filled
r migration commit data/filled
r snap ls data/filled
r info data/filled
content data/filled
r migration prepare --import-only template@base data/given-up
r migration abort data/given-up
r ls
r ls data
r info template
r snap purge --no-progress template
r rm --no-progress template
r snap purge --no-progress data/filled
r rm --no-progress data/filled

echo '# Images of format 1, which the library makes no more unless it is forced to'
r create --image-format 1 --size 8M ancient
export RBD_FORCE_ALLOW_V1=1
r create --image-format 1 --size 8M ancient
r create --image-format 1 --size 8M ancient
r import --image-format 1 --no-progress a.raw old
r create --size 8M ancient
unset RBD_FORCE_ALLOW_V1
r ls
r ls -l
r info ancient
r info --format json ancient
content old
r snap create old@a
r snap create old@a
rbd bench --io-type write --io-size 1M --io-total 1M --io-threads 1 old > /dev/null 2>&1
r snap create old@b
r snap ls old
r diff --from-snap a old
content old@a
r snap rename old@b old@a
r snap rename old@none old@c
r snap rename old@b old@c
r snap limit set --limit 1 old
r snap limit set --limit 2 old
r snap create old@d
r snap limit clear old
r snap rollback --no-progress old@a
content old
r resize --no-progress --size 16M old
r resize --no-progress --allow-shrink --size 1M old
r info old
r info old@a
r snap protect old@a
r snap rm --no-progress old@none
r snap rm --no-progress old@a
r snap ls old
r rm --no-progress old
r rename old ancient
r rename old older
r ls
r image-meta set older key value
r image-meta list older
r lock add older mine
r lock ls older
r feature enable older exclusive-lock
r trash mv older
r cp --no-progress older copied
r info copied
r rm --no-progress copied
r migration prepare ancient moved
r info ancient
r migration prepare ancient again
r migration abort --no-progress moved
r ls
r migration prepare ancient moved
r migration execute --no-progress moved
r migration commit --no-progress moved
r info ancient
r info moved
r rm --no-progress moved
r snap purge --no-progress older
r rm --no-progress older
r rm --no-progress older
r ls

echo '# Encryption'
r create --size 32M locked
r encryption format locked luks1 pass
rbd export --no-progress locked - 2> /dev/null | head -c 6 | od -c
r rm locked

echo '# Mirroring, which nobody has asked for'
r mirror pool info
r mirror pool status
r mirror image status striped
r mirror image enable striped
r mirror pool disable

echo '# The end'
r rm striped
r rm spread
r rm plain
r rm simple
r ls
r ls data
