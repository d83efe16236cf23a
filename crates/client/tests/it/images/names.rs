//! Names are bytes, and users see only what their capabilities permit.

use onego::ceph::{Config, Error, Identity};
use onego::rados::Cluster;
use onego::rbd::{self, CreateOptions, Image, pools};
use onego::text;
use onego_cluster::Config as ClusterConfig;

fn options() -> CreateOptions {
    CreateOptions::new(1 << 20)
}

async fn list(pool: &onego::rados::Pool) -> Result<Vec<String>, Error> {
    let (mut names, mut listing) = (Vec::new(), rbd::list(pool));
    while let Some(name) = listing.try_next().await? {
        names.push(name);
    }
    Ok(names)
}

#[test]
fn names_of_objects_and_images_may_be_any_bytes() {
    let server = onego_cluster::Cluster::start(ClusterConfig::default()).unwrap();
    let work = async {
        let cluster = Cluster::connect(&Config::from_text(&server.conf()).unwrap()).await?;
        let pool = cluster.pool("rbd").await?;
        let raw = &b"a\xff\xf4\x8f\xbb\xbf/\n"[..];
        let name = text::from_bytes(raw).into_owned();
        pool.write_full(&name, b"bytes".to_vec()).await?;
        pool.set_xattr(&name, &name, b"value".to_vec()).await?;
        let within = pool.in_namespace(&name);
        within.write_full("within", b"more".to_vec()).await?;
        let (mut found, mut listing) = (Vec::new(), pool.all_objects());
        while let Some(entry) = listing.try_next().await? {
            let [namespace, name] =
                [&entry.namespace, &entry.name].map(|name| text::to_bytes(name).into_owned());
            found.push((namespace, name));
        }
        found.sort();
        assert_eq!(found, [(Vec::new(), raw.to_vec()), (raw.to_vec(), b"within".to_vec())]);
        assert_eq!(pool.read(&name, 0, 0).await?.to_vec(), b"bytes");
        assert!(pool.xattrs(&name).await?.into_keys().eq([name.clone()]));
        pool.remove(&name).await?;

        let bad = text::from_bytes(b"bad\xff").into_owned();
        for image in [&bad, "good"] {
            rbd::create(&pool, image, &options()).await?;
        }
        assert_eq!(list(&pool).await?, [bad.as_str(), "good"]);
        assert_eq!(
            pool.read("rbd_id.bad\u{10feff}", 0, 0).await?.len(),
            4 + rbd::info(&pool, &bad).await?.id.len()
        );
        let image = Image::open(&pool, &bad).await?;
        image.write(0, vec![7; 512]).await?;
        image.close().await?;
        rbd::snapshots::create(&pool, &bad, &bad).await?;
        let details = rbd::ImageDetails::of(&pool, &bad).await?;
        assert_eq!(details.snapshot(&bad)?.name, bad);
        Ok::<_, Error>(())
    };
    smol::block_on(work).unwrap();
}

#[test]
fn a_user_of_one_namespace_lists_and_creates_images_in_it() {
    let server = onego_cluster::Cluster::start(ClusterConfig::default().with_cephx(true)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let work = async {
        let conf = server.write_conf(folder.path()).unwrap();
        let admin = Cluster::connect(&Config::from_file(&conf)?).await?;
        let pool = admin.pool("rbd").await?;
        pools::create_namespace(&pool, "n1").await?;
        let keyring = admin
            .command(
                r#"{"prefix": "auth get-or-create", "entity": "client.one", "caps":
                    ["mon", "profile rbd", "osd", "profile rbd pool=rbd namespace=n1"]}"#,
                onego::List::new(),
            )
            .await?;
        let ring = folder.path().join("keyring");
        std::fs::write(&ring, &keyring.output).unwrap();
        let mut identity = Identity::default().with_name("client.one".parse().unwrap());
        identity.keyring = Some(ring);
        let user = Cluster::connect(&Config::from_file_as(&conf, &identity)?).await?;
        let within = user.pool("rbd").await?.in_namespace("n1");
        assert_eq!(list(&within).await?, [""; 0]);
        rbd::create(&within, "disk", &options()).await?;
        assert_eq!(list(&within).await?, ["disk"]);
        assert!(matches!(list(&within.in_namespace("n2")).await, Err(Error::Refused { .. })));
        assert!(matches!(list(&pool.in_namespace("n2")).await, Err(Error::NotFound { .. })));
        Ok::<_, Error>(())
    };
    smol::block_on(work).unwrap();
}
