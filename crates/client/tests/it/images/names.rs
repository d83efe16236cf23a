//! Users see the images that they may see.

use onego::ceph::{Config, Error, Identity};
use onego::rados::Cluster;
use onego::rbd::{self, CreateOptions, pools};
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
fn a_user_of_one_namespace_lists_and_makes_images_in_it() {
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
