(** * The block race by cells

    The block race with finitely many scores: of a uniform score only its cell is drawn, and whatever sees the cells
    alone may settle ties. It is lossless and accepts as the block race does, and being finite it can be computed:
    with ties settled fairly it is the block race, since which of several scores in the lowest cell is the smallest
    is a fair draw. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means Token Block Race Score BlockRace.
Import ListNotations.
Open Scope R_scope.

Section CellRace.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  (** A grid that has the ratios of all texts of up to [L] tokens among its marks. *)
  Definition grid_of_ratios (cells : nat) (mark : nat -> R) : Prop :=
    is_grid cells mark
    /\ forall v, vocabulary_text V v -> (length v <= L)%nat -> is_mark cells mark (rho p q v).

  Variables (cells : nat) (mark : nat -> R).
  Hypothesis Hgrid : grid_of_ratios cells mark.

  Let Q := text_prob q.
  Let rho := rho p q.
  Let part := part cells mark.
  Let grid : is_grid cells mark := proj1 Hgrid.

  Lemma rho_is_mark v : vocabulary_text V v -> (length v <= L)%nat -> is_mark cells mark (rho v).
  Proof. apply Hgrid. Qed.

  Lemma vocabulary_cons c v : In c (vocabulary V) -> vocabulary_text V v -> vocabulary_text V (c :: v).
  Proof. intros Hc Hv. constructor; [apply in_seq in Hc; lia | exact Hv]. Qed.

  Lemma interval v c : vocabulary_text V v -> (length v <= L)%nat -> In c (vocabulary V) ->
    let l := low L p q (v, c) in let h := high p q (v, c) in
    is_mark cells mark l /\ is_mark cells mark h /\ l <= h.
  Proof.
    intros Hv HL Hc. unfold low, high. cbn [fst snd]. destruct (Nat.eqb_spec (length v) L) as [E | E].
    - pose proof (rho_bounds V p q Hp v). repeat split; [apply zero_is_mark, grid | now apply rho_is_mark | reals; lra].
    - repeat split; [| now apply rho_is_mark | apply (rho_decreases p q)].
      apply rho_is_mark; [now apply vocabulary_cons | simpl; lia].
  Qed.

  (** ** One draft *)

  (** An emission and its score. *)
  Definition scored : law R (emission * nat) := x <- draft V p L [];; entry V L p q cells mark x.

  (** The completed text and the score. *)
  Definition scored_text : law R (text * nat) :=
    e <- scored;; y <- follow V q (L - length (fst (fst e))) (snd (fst e) :: fst (fst e));; ret (y, snd e).

  Lemma mean_scored (g : emission * nat -> R) :
    mean scored g = emissions_from V L p q L [] (fun u =>
      mean (uniform_score cells mark (low L p q u) (high p q u)) (fun j => g (u, j))).
  Proof.
    unfold scored. rewrite <- mean_block by assumption. unfold emitted. rewrite !mean_bind.
    apply mean_ext. intros x. unfold entry. rewrite mean_bind. apply mean_ext. intros u.
    rewrite mean_bind. apply mean_ext. intros j. now rewrite mean_ret.
  Qed.

  (** The part of the score's interval that falls to the text, for any function of both. *)
  Lemma scored_value (f : text -> nat -> R) :
    is_value V L p q (vocabulary_text V)
      (fun u => mean (uniform_score cells mark (low L p q u) (high p q u)) (fun j =>
        completed V L q (fun y => f y j) u))
      (fun v a b => mean (follow V q (S L - length v) v) (fun y => part a b (f y))).
  Proof.
    intros v Hv HL. split.
    - replace (S L - length v)%nat with (S (L - length v)) by lia.
      rewrite (mean_follow_step V q Hq). apply sum_ext. intros c _. simpl. reflexivity.
    - intros c Hc. destruct (interval v c Hv HL Hc) as (Hl & Hh & Hlh). split.
      + rewrite mean_uniform_score by auto. unfold completed. cbn [fst snd length Nat.sub].
        unfold part, Score.part. rewrite mean_sum. apply sum_ext. intros j _. now rewrite mean_scale.
      + intros HL'. split; [now apply vocabulary_cons |]. rewrite <- mean_plus. apply mean_ext. intros y.
        apply part_additive; [exact grid | apply rho_is_mark; [now apply vocabulary_cons | simpl; lia] |].
        pose proof (rho_decreases p q c v). pose proof (rho_bounds V p q Hp (c :: v)). unfold rho in *. lra.
  Qed.

  Lemma mean_scored_completed (f : text -> R) (a : nat -> R) :
    mean scored (fun e => a (snd e) * completed V L q f (fst e)) = mean (follow V q (S L) []) f * part 0 1 a.
  Proof.
    rewrite mean_scored.
    pose proof (value_below V L p q Hp Hq _ _ _ (scored_value (fun y j => a j * f y)) L []
      (Forall_nil _) eq_refl) as H.
    simpl in H. reals. rewrite !Rmult_1_l in H. etransitivity; [etransitivity; [| exact H] |].
    - apply emissions_from_ext. intros t c. apply mean_ext. intros j. unfold completed. now rewrite mean_scale.
    - rewrite <- mean_scale_r. apply mean_ext. intros y. unfold part, Score.part.
      rewrite <- sum_scale. apply sum_ext. intros. ring.
  Qed.

  Lemma mean_score (a : nat -> R) : mean scored (fun e => a (snd e)) = part 0 1 a.
  Proof.
    pose proof (mean_scored_completed (fun _ => 1) a) as H.
    rewrite (follow_total V q Hq), Rmult_1_l in H. rewrite <- H. apply mean_ext. intros e.
    unfold completed. rewrite (follow_total V q Hq). ring.
  Qed.

  Lemma scored_total : mean scored (fun _ => 1) = 1.
  Proof.
    rewrite (mean_score (fun _ => 1)).
    apply part_from_zero; [exact grid | apply one_is_mark, grid].
  Qed.

  (** The text that a draft's emission is completed to follows the target, and its score is independent of it. *)
  Theorem score_says_nothing : independent_score scored_text (follow V q (S L) []).
  Proof.
    assert (E : forall h : text * nat -> R,
      mean scored_text h = mean scored (fun e => completed V L q (fun y => h (y, snd e)) (fst e))).
    { intros h. unfold scored_text. rewrite mean_bind. apply mean_ext. intros e.
      rewrite mean_bind. apply mean_ext. intros y. now rewrite mean_ret. }
    intros f a. rewrite !E. cbn [fst snd].
    rewrite (mean_ext _ (fun e => completed V L q (fun y => f y * a (snd e)) (fst e))
                        (fun e => a (snd e) * completed V L q f (fst e))).
    - rewrite mean_scored_completed. f_equal. rewrite <- mean_score. apply mean_ext. intros e.
      unfold completed. symmetry. apply mean_constant, (follow_total V q Hq).
    - intros e. unfold completed. rewrite mean_scale_r. ring.
  Qed.

  (** The score itself is uniform on (0, 1]. *)
  Theorem score_is_uniform m : is_mark cells mark m ->
    probability scored (fun e => leb (mark (S (snd e))) m) = m.
  Proof.
    intros Hm. pose proof (mark_bounds cells mark grid m Hm) as Hb. unfold probability.
    rewrite (mean_score (fun j => if leb (mark (S j)) m then one else zero)).
    transitivity (part 0 m (fun _ => 1)); [| now apply part_from_zero].
    unfold part. rewrite <- (part_below cells mark 0 m 1) by lra.
    unfold part, Score.part. apply sum_ext. intros j _. unfold below. reals. ring.
  Qed.

  (** ** [K] drafts *)

  Variables (K : nat) (select : list nat -> list R).
  Hypothesis HK : (0 < K)%nat.
  Hypothesis Hselect : is_selection select.

  Let emitted_by_race : law R emission := emitted_from V L p K (cell_race V L p q cells mark select).

  Lemma mean_cell_race f :
    mean emitted_by_race f = mean (bind (independent (repeat scored K)) (race select)) f.
  Proof.
    unfold emitted_by_race, emitted_from, cell_race. rewrite mean_bind.
    rewrite (mean_ext _ _ (fun xs =>
        mean (independent (map (entry V L p q cells mark) xs)) (fun es => mean (race select es) f)))
      by (intros; now rewrite mean_bind).
    rewrite mean_independent_bind, <- mean_bind. reflexivity.
  Qed.

  Lemma cell_race_means f : mean (text_after V L q emitted_by_race) f = mean (follow V q (S L) []) f.
  Proof.
    rewrite mean_text_after, mean_cell_race.
    apply (mean_race_constant select Hselect); [now destruct K; [apply Nat.lt_irrefl in HK |] |].
    intros e He. apply repeat_spec in He. subst e. split; [apply scored_total |].
    intros a. rewrite mean_scored_completed, mean_score. ring.
  Qed.

  (** Whatever the selection from the scores alone: smallest with ties settled fairly or by index, or any other. *)
  Theorem cell_race_is_lossless : lossless V L q (text_after V L q emitted_by_race).
  Proof. apply lossless_by_means; [exact Hq | exact cell_race_means]. Qed.

  (** ** Acceptance *)

  Lemma mean_scored_reaching v (a : nat -> R) : vocabulary_text V v -> (length v <= L)%nat ->
    mean scored (fun e => a (snd e) * (if reaches v (fst (fst e)) then 1 else 0)) = Q v * part 0 (rho v) a.
  Proof.
    intros Hv HL. rewrite mean_scored.
    assert (HB : is_value V L p q (fun u => vocabulary_text V u /\ reaches v u = true)
      (fun u => mean (uniform_score cells mark (low L p q u) (high p q u)) a) (fun _ l h => part l h a)).
    { intros u [Hu Hr] HuL. split.
      - rewrite sum_scale_r, (next_total V q Hq). ring.
      - intros c Hc. destruct (interval u c Hu HuL Hc) as (Hl & Hh & Hlh). split.
        + now apply mean_uniform_score.
        + intros HuL'. split; [split; [now apply vocabulary_cons |] |].
          * apply reaches_iff in Hr as [t ->]. apply reaches_iff. now exists (c :: t).
          * apply part_additive; [exact grid | apply rho_is_mark; [now apply vocabulary_cons | simpl; lia] |].
            pose proof (rho_decreases p q c u). pose proof (rho_bounds V p q Hp (c :: u)). unfold rho in *. lra. }
    pose proof (value_reaching V L p q Hp Hq v _ _ Hv HL HB L v [] (eq_sym (app_nil_r v)) eq_refl) as H.
    simpl in H. reals. rewrite Rmult_1_l in H. etransitivity; [| exact H].
    apply emissions_from_ext. intros t c. unfold counted. cbn [fst snd]. destruct (reaches v (t ++ [])).
    - apply mean_ext. intros j. ring.
    - rewrite (mean_ext _ _ (fun _ => 0)) by (intros; ring). apply mean_zero.
  Qed.

  (** Of the scores in a list the smallest is below [m] unless all are above. *)
  Lemma winner_below (m : R) (l : list (emission * nat)) : picks_smallest select -> l <> [] ->
    sum (combine (shares (select (map snd l))) l) (fun we => fst we * below mark m (snd (snd we)))
    = 1 - product (map (fun e => 1 - below mark m (snd e)) l).
  Proof.
    intros Hsmallest Hl.
    assert (Hcases : (forall e, In e l -> below mark m (snd e) = 0) \/ exists e, In e l /\ below mark m (snd e) = 1).
    { clear. induction l as [| e l [IH | (e' & He' & IH)]]; [left; easy | |].
      - destruct (leb (mark (S (snd e))) m) eqn:E.
        + right. exists e. split; [now left |]. unfold below. now rewrite E.
        + left. intros e' [<- | He']; [unfold below; now rewrite E | auto].
      - right. exists e'. split; [now right | exact IH]. }
    destruct Hcases as [Hall | (e & He & Hbelow)].
    - (* all above *)
      assert (Hprod : product (map (fun e => 1 - below mark m (snd e)) l) = 1).
      { clear - Hall. induction l as [| e l IH]; [reflexivity |]. cbn [map].
        rewrite product_cons, IH, Hall by (intros; try apply Hall; simpl; auto). ring. }
      rewrite Hprod, (sum_ext _ _ (fun _ => 0)), sum_zero; [ring |].
      intros [w e] Hin. apply in_combine_r in Hin. cbn [fst snd]. rewrite Hall by exact Hin. ring.
    - (* one is below, and then the winner is *)
      assert (Hprod : product (map (fun e => 1 - below mark m (snd e)) l) = 0).
      { clear - He Hbelow. induction l as [| e' l IH]; [easy |]. cbn [map]. rewrite product_cons.
        destruct He as [-> | He]; [rewrite Hbelow; ring | rewrite IH by exact He; ring]. }
      rewrite Hprod, Rminus_0_r, <- (shares_total select Hselect l Hl).
      apply sum_ext. intros [w [u j]] Hin. cbn [fst snd].
      destruct (Req_dec w 0) as [-> | Hw]; [ring |].
      enough (below mark m j = 1) as -> by ring.
      assert (Hle : (j <= snd e)%nat).
      { apply in_shares in Hin as (w' & Hin & Hw'); [| exact Hw].
        apply (Hsmallest _ w' j) with (i := snd e) in Hin; [exact Hin | exact Hw' | now apply in_map]. }
      unfold below in *. destruct (leb (mark (S (snd e))) m) eqn:E; [| lra].
      apply leb_true in E. pose proof (mark_monotone cells mark grid (S j) (S (snd e)) ltac:(lia)).
      rewrite (proj2 (leb_true _ _)) by lra. reflexivity.
  Qed.

  Theorem cell_race_reach v : picks_smallest select -> vocabulary_text V v -> (length v <= L)%nat ->
    probability emitted_by_race (fun u => reaches v (fst u)) = Q v * (1 - (1 - rho v) ^ K).
  Proof.
    intros Hsmallest Hv HL. unfold probability. rewrite mean_cell_race.
    pose proof (rho_bounds V p q Hp v) as Hrho. fold rho in Hrho.
    assert (Hbelow : part 0 1 (below mark (rho v)) = rho v).
    { transitivity (part 0 (rho v) (fun _ => 1)); [| apply part_from_zero; [exact grid | now apply rho_is_mark]].
      unfold part. rewrite <- (part_below cells mark 0 (rho v) 1) by lra.
      unfold part, Score.part. apply sum_ext. intros. ring. }
    rewrite (mean_race_given_the_scores select Hselect (repeat scored K) _ (fun e => Q v * below mark (rho v) (snd e))).
    - rewrite (mean_independent_ext _ _ (fun l =>
        Q v * (1 - product (map (fun e => 1 - below mark (rho v) (snd e)) l)))).
      + rewrite mean_scale, mean_minus, independent_total by (intros e He; apply repeat_spec in He; subst e; apply scored_total).
        rewrite mean_independent_product. f_equal. f_equal. f_equal.
        rewrite mean_minus, scored_total, mean_score, Hbelow. reflexivity.
      + intros l Hl. rewrite <- winner_below; [| exact Hsmallest |].
        * rewrite <- sum_scale. apply sum_ext. intros. ring.
        * intros ->. rewrite repeat_length in Hl. simpl in Hl. lia.
    - now destruct K; [apply Nat.lt_irrefl in HK |].
    - intros e He a. apply repeat_spec in He. subst e. pose proof (mean_scored_reaching v a Hv HL) as H. reals. rewrite H.
      rewrite (mean_ext _ _ (fun e => Q v * (a (snd e) * below mark (rho v) (snd e)))) by (intros; ring).
      rewrite mean_scale, (mean_score (fun j => a j * below mark (rho v) j)). f_equal.
      symmetry. apply part_below. lra.
  Qed.
End CellRace.

(** ** There is such a grid for every pair of models *)

Theorem grid_of_ratios_exists V L p q : is_model V p -> exists cells mark, grid_of_ratios V L p q cells mark.
Proof.
  intros Hp.
  destruct (grid_exists (map (rho p q) (flat_map (texts_of V) (seq 0 (S L))))) as (cells & mark & grid & Hall).
  - intros x Hx. apply in_map_iff in Hx as (v & <- & _). now apply (rho_bounds V).
  - exists cells, mark. split; [exact grid |]. intros v Hv HL. apply Hall, in_map, in_flat_map.
    exists (length v). split; [apply in_seq; lia | now apply in_texts_of].
Qed.
